// SPDX-License-Identifier: Apache-2.0
//
// remora_zoo: writes published architectures as ONNX models. Exit: 0 done, 64 bad usage, 65 a file that cannot be
// written, 70 internal error.
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "examples/zoo/command_line.hpp"
#include "examples/zoo/settings.hpp"
#include "model/error.hpp"

int main(int count, char** arguments) {
  constexpr int kBadUsage = 64;
  constexpr int kBadFile = 65;
  constexpr int kInternalError = 70;
  int code = kInternalError;
  try {
    remora::zoo::run(std::vector<std::string>(arguments + 1, arguments + count), std::cout, std::cerr);
    return 0;
  } catch (const remora::zoo::UsageError& error) {
    std::cerr << "remora_zoo: " << error.what() << '\n';
    code = kBadUsage;
  } catch (const remora::InputError& error) {
    std::cerr << "remora_zoo: " << error.what() << '\n';
    code = kBadFile;
  } catch (const std::exception& error) {
    std::cerr << "remora_zoo: internal error: " << error.what() << '\n';
  }
  return code;
}
