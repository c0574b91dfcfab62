// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <unistd.h>

namespace remora::test {

/// A child process that runs these words, its standard error in the file `err`, its output thrown away; signals as in a
/// shell. Its number; the caller waits for it.
inline pid_t start_child(const std::vector<std::string>& words, const std::string& err) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  (void)!freopen("/dev/null", "w", stdout);
  (void)!freopen(err.c_str(), "w", stderr);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace remora::test
