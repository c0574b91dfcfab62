# SPDX-License-Identifier: Apache-2.0
"""Steps out of the text of FX graphs: what is read, what is one op, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import remora

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "lanes"))
import fx
from fx._tables import read_table

# Two layers, y = silu(x @ w1') @ w2', whose weights are sharded over four devices.
HEAD = "import torch\nraise RuntimeError('this text is not to be run')\n\nclass Repro(torch.nn.Module):\n"
FORWARD = """
convert_element_type = prims.convert_element_type.default(primals_2, torch.bfloat16)
all_gather_into_tensor = c10d.all_gather_into_tensor.default(convert_element_type, 4, '0');  convert_element_type = None
wait_tensor = c10d.wait_tensor.default(all_gather_into_tensor);  all_gather_into_tensor = None
permute = aten.permute.default(wait_tensor, [1, 0]);  wait_tensor = None
mm = aten.mm.default(primals_1, permute);  permute = None
convert_element_type_1 = prims.convert_element_type.default(mm, torch.float32)
sigmoid = aten.sigmoid.default(convert_element_type_1)
mul = aten.mul.Tensor(convert_element_type_1, sigmoid);  convert_element_type_1 = sigmoid = None
convert_element_type_2 = prims.convert_element_type.default(mul, torch.bfloat16);  mul = None
convert_element_type_3 = prims.convert_element_type.default(primals_3, torch.bfloat16)
all_gather_into_tensor_1 = c10d.all_gather_into_tensor.default(convert_element_type_3, 4, '0')
wait_tensor_1 = c10d.wait_tensor.default(all_gather_into_tensor_1)
permute_1 = aten.permute.default(wait_tensor_1, [1, 0])
mm_1 = aten.mm.default(convert_element_type_2, permute_1);  convert_element_type_2 = permute_1 = None
return (mm_1, primals_1, primals_2, primals_3, mm)
"""
BACKWARD = """
permute_2 = aten.permute.default(tangents_1, [1, 0])
convert_element_type_1 = prims.convert_element_type.default(mm, torch.float32);  mm = None
sigmoid = aten.sigmoid.default(convert_element_type_1)
mul = aten.mul.Tensor(convert_element_type_1, sigmoid);  convert_element_type_1 = None
convert_element_type_2 = prims.convert_element_type.default(mul, torch.bfloat16);  mul = None
mm_2 = aten.mm.default(permute_2, convert_element_type_2);  permute_2 = convert_element_type_2 = None
convert_element_type_3 = prims.convert_element_type.default(primals_3, torch.bfloat16)
all_gather_into_tensor_1 = c10d.all_gather_into_tensor.default(convert_element_type_3, 4, '0')
wait_tensor_1 = c10d.wait_tensor.default(all_gather_into_tensor_1)
permute_1 = aten.permute.default(wait_tensor_1, [1, 0])
permute_3 = aten.permute.default(permute_1, [1, 0])
mm_3 = aten.mm.default(tangents_1, permute_3);  tangents_1 = permute_3 = None
convert_element_type_4 = prims.convert_element_type.default(mm_3, torch.float32);  mm_3 = None
mul_1 = aten.mul.Tensor(convert_element_type_4, sigmoid);  convert_element_type_4 = sigmoid = None
convert_element_type_5 = prims.convert_element_type.default(mul_1, torch.bfloat16);  mul_1 = None
permute_4 = aten.permute.default(convert_element_type_5, [1, 0]);  convert_element_type_5 = None
mm_4 = aten.mm.default(permute_4, primals_1);  permute_4 = primals_1 = None
convert_element_type_6 = prims.convert_element_type.default(mm_4, torch.float32);  mm_4 = None
reduce_scatter_tensor = c10d.reduce_scatter_tensor.default(convert_element_type_6, 'avg', 4, '0')
wait_tensor_2 = c10d.wait_tensor.default(reduce_scatter_tensor);  reduce_scatter_tensor = None
convert_element_type_7 = prims.convert_element_type.default(mm_2, torch.float32);  mm_2 = None
reduce_scatter_tensor_1 = c10d.reduce_scatter_tensor.default(convert_element_type_7, 'avg', 4, '0')
wait_tensor_3 = c10d.wait_tensor.default(reduce_scatter_tensor_1);  reduce_scatter_tensor_1 = None
return (None, wait_tensor_2, wait_tensor_3)
"""
ARGUMENTS: dict[str, tuple[Any, str]] = {
    "primals_1": ((8, 16), "bfloat16"),
    "primals_2": ((4, 16), "float32"),
    "primals_3": ((4, 16), "float32"),
    "mm": ((8, 16), "bfloat16"),
    "tangents_1": ((8, 16), "bfloat16"),
}
TABLE = """  Group    Group Size  Collective                    1MB (ms)    2MB (ms)
-------  ------------  --------------------------  ----------  ----------
      0             4  all_gather_into_tensor          0.001        0.003
      0             4  reduce_scatter_tensor           0.002        0.003
"""
DEVICE = {"name": "one", "rates": {"fp32": 1e9}, "bandwidth": 1e9}


def text(body: str, names: list[str], arguments: dict[str, tuple[Any, str]] = ARGUMENTS) -> str:
    body = body.replace("TRITON", "torch.ops.higher_order.triton_kernel_wrapper_functional")
    for short, long in (("c10d", "_c10d_functional"), ("aten", "aten"), ("prims", "prims")):
        body = body.replace(f" {short}.", f" torch.ops.{long}.")
    lines = body.strip().splitlines()
    whole = HEAD + f"    def forward(self, {', '.join(names)}):\n" + "".join(f"        {line}\n" for line in lines)
    whole += "\ndef load_args(reader):\n"
    for i, name in enumerate(names):
        shape, dtype = arguments[name]
        whole += f"    buf{i} = reader.storage(None, 0, device=device(type='cuda', index=0))\n"
        whole += f"    reader.tensor(buf{i}, {shape}, dtype=torch.{dtype}, is_leaf=True)  # {name}\n"
    return whole


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "fw.py").write_text(text(FORWARD, ["primals_1", "primals_2", "primals_3"]))
    (tmp_path / "bw.py").write_text(text(BACKWARD, list(ARGUMENTS)))
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "device.json").write_text(json.dumps(DEVICE))
    return tmp_path


def read(files: Path, **more: Any) -> fx.FxStep:
    asked: dict[str, Any] = {"device": files / "device.json", "table": files / "table", "groups": {"0": ("0", 4)}}
    return fx.read_step(files / "fw.py", files / "bw.py", **(asked | more))


def test_both_texts_are_one_step(files: Path) -> None:
    step = read(files)
    graph = json.loads(step.graph.to_json())
    ops = {op["name"]: op for op in graph["ops"]}
    size = {tensor["name"]: tensor["size"] for tensor in graph["tensors"]}
    assert graph["version"] == 3
    assert graph["devices"] == [{"name": "gpu", "lanes": ["compute", "group 0"]}]
    assert {name: (op["phase"], op["inputs"], op["duration"]) for name, op in ops.items()} == {
        # Casts of shards belong to their gathers; a megabyte and less takes as long as a megabyte.
        "all_gather_into_tensor": ("forward", ["primals_2"], 1000),
        "mm": ("forward", ["primals_1", "all_gather_into_tensor"], 2 * 8 * 16 * 16),
        # silu is one kernel, which reads what was cast up as it was: 256 bytes in, 256 out.
        "convert_element_type_2": ("forward", ["mm"], 512),
        "all_gather_into_tensor_1": ("forward", ["primals_3"], 1000),
        "mm_1": ("forward", ["convert_element_type_2", "all_gather_into_tensor_1"], 2 * 8 * 16 * 16),
        "loss": ("loss", ["mm_1"], 512),
        "mm_2": ("backward", ["tangents_1", "convert_element_type_2"], 2 * 8 * 16 * 16),
        "mm_3": ("backward", ["tangents_1", "all_gather_into_tensor_1"], 2 * 8 * 16 * 16),
        # The sigmoid once more, from mm.
        "convert_element_type_5": ("backward", ["mm", "mm_3"], 768),
        "mm_4": ("backward", ["convert_element_type_5", "primals_1"], 2 * 8 * 16 * 16),
        "convert_element_type_6": ("backward", ["mm_4"], 512 + 1024),
        "reduce_scatter_tensor": ("backward", ["convert_element_type_6"], 2000),
        "convert_element_type_7": ("backward", ["mm_2"], 512 + 1024),
        "reduce_scatter_tensor_1": ("backward", ["convert_element_type_7"], 2000),
    }
    assert step.again == {"convert_element_type_2", "all_gather_into_tensor_1"}
    assert ops["all_gather_into_tensor"]["workspace"] == 4 * 16 * 2
    assert ops["all_gather_into_tensor"]["collective"] == {"kind": "all_gather", "bytes": 512, "group": 4}
    assert ops["all_gather_into_tensor"]["lane"] == "group 0"
    assert ops["reduce_scatter_tensor"]["recompute"] == "never"
    assert {name: size[name] for name in ("primals_2", "mm", "tangents_1", "all_gather_into_tensor")} == {
        "primals_2": 256,
        "mm": 256,
        "tangents_1": 256,
        "all_gather_into_tensor": 512,
    }
    kept = {tensor["name"] for tensor in graph["tensors"] if tensor.get("keep")}
    assert kept == {"reduce_scatter_tensor", "reduce_scatter_tensor_1"}


def test_what_is_gathered_is_gathered_again_under_a_budget(files: Path) -> None:
    graph = read(files).graph
    whole = remora.solve(graph, {"gpu": 1 << 20}, work_limit=3000)
    tight = remora.solve(graph, {"gpu": whole.peak["gpu"] - 256}, work_limit=3000)
    for schedule in (whole, tight):
        assert remora.verify(graph, schedule)
    assert len(tight.steps) >= len(whole.steps) == len(graph)


def test_buckets(files: Path) -> None:
    step = read(files, bucket=256)
    ops = {op["name"]: op for op in json.loads(step.graph.to_json())["ops"]}
    assert ops["all_gather_into_tensor"]["inputs"] == ["primals_2", "primals_3"]
    assert ops["all_gather_into_tensor"]["outputs"] == ["all_gather_into_tensor", "all_gather_into_tensor_1"]
    assert ops["reduce_scatter_tensor"]["inputs"] == ["convert_element_type_6", "convert_element_type_7"]
    assert not {"all_gather_into_tensor_1", "reduce_scatter_tensor_1"} & set(ops)
    assert step.again == {"convert_element_type_2", "all_gather_into_tensor"}
    assert len(read(files, bucket=255).graph) == len(read(files).graph)


# Rows go to the device of their expert: of 32 choices among 8 experts on 4 devices. Sizes are decided by data.
ROUTED_FORWARD = """
histc = aten.histc.default(primals_2, 8, 0, 8)
all_to_all_single = c10d.all_to_all_single.default(histc, [2, 2, 2, 2], [2, 2, 2, 2], '0')
wait_tensor = c10d.wait_tensor.default(all_to_all_single);  all_to_all_single = None
view = aten.view.default(histc, [4, -1]);  histc = None
sum_1 = aten.sum.dim_IntList(view, [1]);  view = None
view_1 = aten.view.default(wait_tensor, [4, -1]);  wait_tensor = None
sum_2 = aten.sum.dim_IntList(view_1, [1])
device_put = prims.device_put.default(sum_1, device(type='cpu'), True);  sum_1 = None
select = aten.select.int(device_put, 0, 0)
_local = aten._local_scalar_dense.default(select);  select = None
ge = _local >= 0
_assert_scalar = aten._assert_scalar.default(ge, "u0 >= 0");  ge = _assert_scalar = None
select_1 = aten.select.int(sum_2, 0, 1)
_local_1 = aten._local_scalar_dense.default(select_1);  select_1 = None
sym_sum = torch.sym_sum((_local_1, 1))
mul_5 = sym_sum * 2
full = aten.full.default([mul_5, 16], 0.0, dtype = torch.bfloat16, device = device(type='cuda', index=0))
all_to_all_single_1 = c10d.all_to_all_single.default(primals_1, [_local_1, 8, 8, 8], [_local, 8, 8, 8], '0')
wait_tensor_1 = c10d.wait_tensor.default(all_to_all_single_1);  all_to_all_single_1 = None
cat = aten.cat.default([wait_tensor_1, full]);  wait_tensor_1 = full = None
cumsum = aten.cumsum.default(view_1, 0)
slice_1 = aten.slice.Tensor(cumsum, 0, 0, -1)
wrapper = TRITON(kwargs = {'from': cat, 'to': cat}, tensors_to_clone = ['to'])
getitem = wrapper['to'];  wrapper = None
mm = aten.mm.default(getitem, primals_3)
return (mm, getitem, primals_3, _local, _local_1)
"""
ROUTED_BACKWARD = """
permute = aten.permute.default(getitem, [1, 0])
mm_1 = aten.mm.default(permute, tangents_1)
return (None, None, mm_1)
"""


def routed(files: Path, stated: int) -> None:
    """`stated`: what the backward text says of the numbers that data decide."""
    own = {
        "primals_1": ((32, 16), "bfloat16"),
        "primals_2": ((32,), "int64"),
        "primals_3": ((16, 16), "bfloat16"),
        "getitem": ("(32 + 2 * (u1 + 1), 16)", "bfloat16"),
        "tangents_1": ((50, 16), "bfloat16"),
    }
    (files / "fw.py").write_text(text(ROUTED_FORWARD, ["primals_1", "primals_2", "primals_3"], own))
    backward = text(ROUTED_BACKWARD, ["getitem", "primals_3", "tangents_1"], own)
    numbers = ["_local", "_local_1"]
    backward = backward.replace("tangents_1):", f"tangents_1, {', '.join(numbers)}):")
    backward += "".join(f"    reader.symint({stated})  # {name}\n" for name in numbers)
    (files / "bw.py").write_text(backward)


@pytest.mark.parametrize(("stated", "even"), [(8, False), (8, True), (5, True)])
def test_sizes_that_data_decide(files: Path, stated: int, even: bool) -> None:
    """As the text states them, or with bins of the histogram that are alike: 4 each, so 8 for a device."""
    routed(files, stated)
    step = read(files, even=even, alike={"all_to_all_single": "all_gather_into_tensor"})
    graph = json.loads(step.graph.to_json())
    ops = {op["name"]: op for op in graph["ops"]}
    sizes = {tensor["name"]: tensor["size"] for tensor in graph["tensors"]}
    exchange = ops["all_to_all_single_1"]
    assert exchange["collective"] == {"kind": "all_to_all", "bytes": 32 * 16 * 2, "group": 4}
    assert exchange["lane"] == "group 0"
    assert exchange["duration"] == 1000  # of an all-gather of 256 bytes by each device
    assert sizes["getitem"] == (32 + 18) * 16 * 2
    # What only sizes are made of is no op.
    assert not {"histc", "device_put", "_local", "_assert_scalar", "sym_sum", "mul_5"} & set(ops)


def test_sizes_of_another_run_are_refused(files: Path) -> None:
    routed(files, 5)
    with pytest.raises(remora.InputError, match=r"all_to_all_single_1: .* in parts of"):
        read(files, alike={"all_to_all_single": "all_gather_into_tensor"})
    with pytest.raises(remora.InputError, match="has no row for all_to_all_single"):
        read(files, even=True)


def test_a_size_that_is_no_histograms_is_refused(files: Path) -> None:
    routed(files, 8)
    text_of = (
        (files / "fw.py")
        .read_text()
        .replace("aten.histc.default(primals_2, 8, 0, 8)", "aten.cumsum.default(primals_2, 0)")
    )
    (files / "fw.py").write_text(text_of.replace("[2, 2, 2, 2], [2, 2, 2, 2]", "[8, 8, 8, 8], [8, 8, 8, 8]"))
    with pytest.raises(remora.InputError, match="not of a histogram"):
        read(files, even=True)


def test_a_table_is_read_between_and_beyond_its_sizes(files: Path) -> None:
    table = read_table(files / "table")
    megabytes = {0.5: 1000, 1: 1000, 1.5: 2000, 2: 3000, 4: 7000}
    for size, time in megabytes.items():
        assert table.nanoseconds("0", 4, "all_gather_into_tensor", int(size * 2**20)) == time


@pytest.mark.parametrize(
    ("part", "old", "new", "says"),
    [
        (
            "fw.py",
            "aten.sigmoid.default",
            "aten.frobnicate.default",
            r"fw.py:\d+: sigmoid: aten.frobnicate.default has no rule",
        ),
        (
            "fw.py",
            "aten.mm.default(primals_1, permute)",
            "aten.mm.default(primals_1, wait_tensor_7)",
            "wait_tensor_7 is not known",
        ),
        ("fw.py", "[1, 0]);  wait_tensor", "[1, 2]);  wait_tensor", "arguments that its rule does not cover"),
        ("fw.py", "class Repro", "class Other", "must have one class Repro"),
        ("fw.py", "import torch\n", "import torch(\n", "is not Python"),
        ("fw.py", "sigmoid = torch", "x[0] = torch", r"fw.py:\d+: must be NAME = CALL"),
        ("bw.py", "aten.sigmoid.default(convert", "aten.neg.default(convert", "sigmoid: is another op than in"),
        (
            "bw.py",
            "(8, 16), dtype=torch.bfloat16, is_leaf=True)  # mm",
            "(8, 17), dtype=torch.bfloat16, is_leaf=True)",
            "mm: ",
        ),
        ("fw.py", "return (mm_1, ", "return (mm_1, permute_1, ", "the texts are not of one step"),
        ("table", "reduce_scatter_tensor", "reduce_scatter", "has no row for reduce_scatter_tensor in group '0' of 4"),
        ("table", "0.003\n      0", "x\n      0", "table:3: must be a group"),
        ("device.json", "fp32", "flops", "fp32: missing"),
        ("device.json", '"fp32": ', '"fp32": -', "fp32: must be positive"),
        ("fw.py", "import torch\n", "import torch  # \udcff\n", "fw.py: is no text in UTF-8"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    files: Path, part: str, old: str, new: str, says: str
) -> None:
    whole = (files / part).read_text()
    assert old in whole
    (files / part).write_text(whole.replace(old, new, 1), errors="surrogateescape")
    with pytest.raises(remora.InputError, match=says):
        read(files)


def test_a_group_without_rows_is_refused(files: Path) -> None:
    with pytest.raises(remora.InputError, match="groups: does not say which rows of the table are those of group '0'"):
        read(files, groups={})
