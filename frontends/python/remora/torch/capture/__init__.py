# SPDX-License-Identifier: Apache-2.0
"""What a step consists of: graphs and traces, as PyTorch's tracers and compilers give them."""
