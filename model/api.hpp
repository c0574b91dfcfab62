// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what the shared library lets programs see. Everything else is built hidden, so that the
/// interface is what the installed headers say and nothing more.
#define REMORA_API __attribute__((visibility("default")))
