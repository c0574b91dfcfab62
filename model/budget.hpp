// SPDX-License-Identifier: Apache-2.0
//
// A budget as people write it.
#pragma once

#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/types.hpp"

namespace remora {

/// A budget from text: bytes ("123456", "12GiB", "1.5GB": everything, fixed memory included), or a percentage. Units
/// are read in any case; K, M, G, T alone are KiB, MiB, GiB, TiB. A percentage p ("62.5%") means fixed + p * (peak -
/// fixed), rounded down: parameters cannot be recomputed away, so they don't count in it; "62.5%peak" means p * peak.
/// `peak`: of the input order without recomputation (baseline_peak). Exact, without floating point. Throws InputError
/// that quotes the text and says what was expected. A number without a unit that is at most 100, and not whole or below
/// a tenth of the peak, is rejected, too: it was meant as a percentage ("80", "0.8"), and the error says so.
REMORA_API Bytes parse_budget(const std::string& text, Bytes fixed, Bytes peak);

/// Budgets from a list: amounts as above and ranges FROM:TO:STEP of one kind, both ends included where the step meets them,
/// between commas ("100%:40%:5%", "12GiB,10GiB:6GiB:1GiB"). In the order of the text; each budget once. Throws InputError.
REMORA_API std::vector<Bytes> parse_budgets(const std::string& text, Bytes fixed, Bytes peak);

/// An amount that no percentage can name, such as the memory of one device among several: bytes as above. A number
/// without a unit that is at most 100, and not whole or below a tenth of `most`, is rejected with the question for its
/// unit. `most`: the bytes that the graph could fill (Bytes(0) if unknown). Throws InputError that quotes the text.
REMORA_API Bytes parse_bytes(const std::string& text, Bytes most);

/// The other way round: p as a part of one; 1 where the peak is nothing but fixed memory.
REMORA_API double part_of_peak(Bytes amount, Bytes fixed, Bytes peak);

}  // namespace remora
