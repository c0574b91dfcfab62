// SPDX-License-Identifier: Apache-2.0
//
// The families of architectures; each is defined in the file of its name and listed in architecture.cpp.
#pragma once

#include <vector>

#include "examples/zoo/architecture.hpp"

namespace remora::zoo {

std::vector<Architecture> vgg_family();
std::vector<Architecture> resnet_family();
std::vector<Architecture> regnet_family();
std::vector<Architecture> mobilenet_family();
std::vector<Architecture> unet_family();
std::vector<Architecture> fcn_family();
std::vector<Architecture> gpt2_family();
std::vector<Architecture> bert_family();
std::vector<Architecture> transformer_family();
std::vector<Architecture> mixer_family();

}  // namespace remora::zoo
