// SPDX-License-Identifier: Apache-2.0
//
// The C++ interface in the locale of the environment, for C and for streams: prints what it reads and writes with numbers.
// usage: main GRAPH FOLDER
#include <iostream>
#include <locale>
#include <memory>
#include <sstream>

#include <remora/remora.hpp>

int main(int count, char** words) {
  if (count != 3) return 64;
  std::locale::global(std::locale(""));
  std::cerr << (std::ostringstream() << 1234.5).str() << "\n";  // what the locale makes of it

  const auto graph = std::make_shared<const remora::Graph>(
      remora::json::read_graph(remora::json::Text(remora::json::read_file(words[1]))));
  remora::Request request{.graph = graph, .max_computes = 2};
  remora::set_option(request.options, "work-limit", "20000");
  remora::set_option(request.options, "threads", "1");
  request.budget = remora::budget_of("87.5%", request);
  const remora::Schedule schedule = remora::solve(request).schedule;
  std::ostringstream written;
  remora::json::write_graph(written, *graph);
  remora::json::write_schedule(written, schedule, *graph);
  const remora::SweepResult swept = remora::sweep(request, {.points = 3});
  remora::json::write_curve(written, swept.curve);
  std::cout << std::move(written).str();
  remora::json::write_file(std::string(words[2]) + "/schedule.json",
                           [&](std::ostream& out) { remora::json::write_schedule(out, schedule, *graph); });
  remora::json::read_schedule(remora::json::Text(remora::json::read_file(std::string(words[2]) + "/schedule.json")),
                              *graph);
  return 0;
}
