// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/exchange_rate.hpp"

#include <algorithm>

namespace remora {

ExchangeRate exchange_rate(const Instance& instance) {
  double area = 1;
  for (TensorId t{0}; t < instance.tensor_count(); t = TensorId(t + 1)) {
    const auto users = instance.users(t);
    if (!instance.producer(t).valid() || users.empty()) continue;
    area += static_cast<double>(instance.size(t).count()) * (users.back() - instance.producer(t));
  }
  const auto time = static_cast<double>(std::max<std::int64_t>(1, instance.baseline_duration().count()));
  return {area / std::max(1, instance.op_count()), area / time};
}

}  // namespace remora
