# SPDX-License-Identifier: Apache-2.0
"""Remora inside trainers.

A callback for Hugging Face's Trainer (`remora.integrations.transformers`) and one for Lightning
(`remora.integrations.lightning`). See docs/guide/auto_checkpoint.md.
"""
