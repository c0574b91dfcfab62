// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/addition.hpp"

#include <algorithm>

namespace remora::tflite {

using flatbuffer::Position;

std::array<Position, field::model::count> put_model(Addition& added, const Model& model,
                                                    std::initializer_list<std::size_t> anew) {
  const auto is_new = [&](std::size_t i) { return std::find(anew.begin(), anew.end(), i) != anew.end(); };
  std::array<bool, field::model::count> present{};
  for (std::size_t i = 0; i < present.size(); ++i) {
    present[i] = is_new(i) || model.reader.field(model.table, i).has_value();
  }
  const auto [table, fields] = added.put_table(present);
  added.refer(0, table);
  added.set(fields[field::model::version], model.reader.number_in<std::uint32_t>(model.table, field::model::version));
  for (std::size_t i = field::model::version + 1; i < present.size(); ++i) {
    if (present[i] && !is_new(i))
      added.refer_to_old(fields[i], model.reader.target(*model.reader.field(model.table, i)));
  }
  return fields;
}

std::vector<Position> put_tables(Addition& added, const Tables& old, std::size_t more) {
  std::vector<Position> places = added.put_references(old.size() + more);
  for (std::size_t i = 0; i < old.size(); ++i) added.refer_to_old(places[i], old.at(i));
  places.erase(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(old.size()));
  return places;
}

void expect_movable(const Model& model) {
  const flatbuffer::Reader& reader = model.reader;
  const Tables buffers(reader, model.table, field::model::buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (reader.number_in<std::uint64_t>(buffers.at(i), field::buffer::outside) > 1) {
      reader.fail("has data outside of its flatbuffer (buffer " + std::to_string(i) +
                  "), as models of 2 GiB and more do");
    }
  }
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    if (reader.number_in<std::uint64_t>(model.operators[i].table, field::operation::outside) > 1) {
      reader.fail("has options outside of its flatbuffer (operator " + std::to_string(i) + ")");
    }
  }
}

}  // namespace remora::tflite
