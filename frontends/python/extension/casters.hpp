// SPDX-License-Identifier: Apache-2.0
//
// The model's own types as Python sees them: amounts and ids are ints, sequences and tables lists.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_list.h>

#include "model/table.hpp"
#include "model/types.hpp"

namespace nanobind::detail {

template <class Tag>
struct type_caster<remora::Quantity<Tag>> {
  NB_TYPE_CASTER(remora::Quantity<Tag>, const_name("int"))

  bool from_python(handle source, auto flags, cleanup_list* cleanup) noexcept {
    make_caster<std::int64_t> number;
    if (!number.from_python(source, flags, cleanup)) return false;
    value = remora::Quantity<Tag>(number.value);
    return true;
  }
  static handle from_cpp(remora::Quantity<Tag> amount, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<std::int64_t>::from_cpp(amount.count(), policy, cleanup);
  }
};

/// From Python any number will do: whether a graph has it, is for GraphHandle to say.
template <class Tag>
struct type_caster<remora::Id<Tag>> {
  NB_TYPE_CASTER(remora::Id<Tag>, const_name("int"))

  bool from_python(handle source, auto flags, cleanup_list* cleanup) noexcept {
    make_caster<std::int32_t> number;
    if (!number.from_python(source, flags, cleanup)) return false;
    value = remora::Id<Tag>(number.value);
    return true;
  }
  static handle from_cpp(remora::Id<Tag> id, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<std::int32_t>::from_cpp(std::int32_t{id}, policy, cleanup);
  }
};

template <>
struct type_caster<remora::Sequence> : list_caster<remora::Sequence, remora::OpId> {};
template <>
struct type_caster<remora::Order> : list_caster<remora::Order, remora::OpId> {};
template <class Id, class Value>
struct type_caster<remora::Table<Id, Value>> : list_caster<remora::Table<Id, Value>, Value> {};

}  // namespace nanobind::detail
