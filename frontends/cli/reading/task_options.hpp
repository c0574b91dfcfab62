// SPDX-License-Identifier: Apache-2.0
//
// A batch task's options: those of `remora solve` that say what is solved and how, read by the same code.
#pragma once

#include <string>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/cli/reading/arguments.hpp"

namespace remora::cli {

/// The options of every task that does not say otherwise, as options of `command`; --budget among them.
void add_task_options(Arguments& arguments);

/// What was typed of these, files as absolute paths. Throws UsageError for what a solve would refuse.
batch::TaskOptions typed_options(const Arguments& arguments);

/// Adds to the task what it leaves to `defaults`, its budget too, and takes paths from `folder` on. Throws UsageError
/// for an unknown option, a value out of its range, options that exclude each other, and for a budget that is missing
/// or none.
void complete_task(batch::Task& task, const batch::TaskOptions& defaults, const std::string& folder);

/// Notes the graphs of complete tasks, and the files that their options name.
void note_task_files(const std::vector<batch::Task>& tasks, Files& files);

/// The task's options as if they had been typed.
Arguments task_arguments(const batch::Task& task);

/// Every option that changes what a complete task asks, as name and value, files by their digests; the number of
/// threads does not. Throws InputError for a file that cannot be read.
batch::Settings task_settings(const batch::Task& task);

/// The tasks of a manifest, complete; - for standard input. Throws InputError with a line for each faulty line of the
/// file.
std::vector<batch::Task> load_manifest(const std::string& path, const batch::TaskOptions& defaults);

}  // namespace remora::cli
