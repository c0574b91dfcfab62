// SPDX-License-Identifier: Apache-2.0
//
// google/minimalloc as a program: CAPACITY SECONDS IN.csv OUT.csv, for measure_peers. CAPACITY 0 looks for the smallest one.
// Built beside the project, with minimalloc's own sources but its main.cc (measure_peers says how).
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "converter.h"
#include "minimalloc.h"
#include "solver.h"

int main(int count, char** words) {
  if (count != 5) return 2;
  std::ifstream in(words[3]);
  auto problem = minimalloc::FromCsv(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!problem.ok()) return 3;
  const std::int64_t capacity = std::atoll(words[1]);
  problem->capacity = capacity > 0 ? capacity : std::numeric_limits<std::int64_t>::max() / 4;
  minimalloc::SolverParams params;
  params.timeout = absl::Seconds(std::atof(words[2]));
  params.minimize_capacity = capacity == 0;
  minimalloc::Solver solver(params);
  auto solution = solver.Solve(*problem);
  if (!solution.ok()) return 1;
  std::ofstream(words[4]) << minimalloc::ToCsv(*problem, &*solution);
  return 0;
}
