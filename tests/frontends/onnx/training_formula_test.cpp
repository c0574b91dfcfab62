// SPDX-License-Identifier: Apache-2.0
//
// Rules that read an activation's output and not its input are right only if the derivative is a function of the
// output. Here are these functions, each against a difference quotient.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {
namespace {

struct Formula {
  const char* type;
  double (*value)(double x);
  double (*derivative)(double y);
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double selu(double x) {
  return 1.0507 * (x > 0 ? x : 1.67326 * std::expm1(x));
}
double celu(double x) {
  return x > 0 ? x : 2 * std::expm1(x / 2);
}

const Formula kFormulas[] = {
    {"Relu", [](double x) { return x > 0 ? x : 0; }, [](double y) { return y > 0 ? 1.0 : 0.0; }},
    {"LeakyRelu", [](double x) { return x > 0 ? x : 0.1 * x; }, [](double y) { return y > 0 ? 1.0 : 0.1; }},
    {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }, [](double y) { return y > 0 ? 1.0 : 0.0; }},
    {"Sigmoid", sigmoid, [](double y) { return y * (1 - y); }},
    {"HardSigmoid", [](double x) { return std::fmin(std::fmax(0.2 * x + 0.5, 0), 1); },
     [](double y) { return y > 0 && y < 1 ? 0.2 : 0.0; }},
    {"Tanh", [](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; }},
    {"Elu", [](double x) { return x > 0 ? x : std::expm1(x); }, [](double y) { return y > 0 ? 1 : y + 1; }},
    {"Selu", selu, [](double y) { return y > 0 ? 1.0507 : y + 1.0507 * 1.67326; }},
    {"Celu", celu, [](double y) { return y > 0 ? 1 : y / 2 + 1; }},
    {"Softplus", [](double x) { return std::log1p(std::exp(x)); }, [](double y) { return -std::expm1(-y); }},
    {"Softsign", [](double x) { return x / (1 + std::fabs(x)); },
     [](double y) { return (1 - std::fabs(y)) * (1 - std::fabs(y)); }},
    {"Exp", [](double x) { return std::exp(x); }, [](double y) { return y; }},
    {"Tan", [](double x) { return std::tan(x / 4) * 4; }, [](double y) { return 1 + y * y / 16; }},
    {"Sqrt", [](double x) { return std::sqrt(x + 4); }, [](double y) { return 1 / (2 * y); }},
    {"Reciprocal", [](double x) { return 1 / (x + 4); }, [](double y) { return -y * y; }},
};

class OutputFormula : public testing::TestWithParam<Formula> {};

TEST_P(OutputFormula, GivesTheDerivative) {
  const Formula& formula = GetParam();
  const Node node{.type = formula.type, .inputs = {ValueId(0)}, .outputs = {ValueId(1)}};
  const std::size_t wanted[] = {0};
  const Reads reads = reads_of(RuleTable::standard().rule(node), node, wanted);
  EXPECT_EQ(reads, (Reads{.inputs = {}, .outputs = {0}})) << formula.type;
  constexpr double kStep = 1e-6;
  for (double x = -3.05; x < 3.1; x += 0.1) {
    const double quotient = (formula.value(x + kStep) - formula.value(x - kStep)) / (2 * kStep);
    EXPECT_NEAR(formula.derivative(formula.value(x)), quotient, 1e-6 * (1 + std::fabs(quotient))) << formula.type << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, OutputFormula, testing::ValuesIn(kFormulas),
                         [](const auto& formula) { return std::string(formula.param.type); });

}  // namespace
}  // namespace remora::onnx_frontend
