"""What the demo decides before it plays: which model, and what was left unfinished."""

from pathlib import Path

import pytest

from examples.demo.kept import DemoHeldError, Folder, demo_folder, new_play
from examples.demo.stage import SCRIPTED, ModelGoneError, chosen_model, model_at_hand

CLAUDE, GPT = {"ANTHROPIC_API_KEY": "a"}, {"OPENAI_API_KEY": "o"}


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({}, SCRIPTED),
        ({"ANTHROPIC_API_KEY": ""}, SCRIPTED),
        (CLAUDE, "anthropic:claude-opus-5-5"),
        (GPT, "openai:gpt-6.1-sol"),
        (CLAUDE | GPT, "anthropic:claude-opus-5-5"),
        (CLAUDE | GPT | {"LEAVE_DESK_MODEL": "openai-chat:mine"}, "openai-chat:mine"),
        (CLAUDE | {"LEAVE_DESK_MODEL": "anthropic:claude-haiku-5-5"}, "anthropic:claude-haiku-5-5"),
        (CLAUDE | {"LEAVE_DESK_MODEL": "openai:gpt-6-luna"}, SCRIPTED),
        ({"LEAVE_DESK_MODEL": "openai:gpt-6-luna"}, SCRIPTED),
    ],
)
def test_a_real_model_is_asked_only_where_its_own_key_is_set(environ: dict[str, str], model: str) -> None:
    assert chosen_model(environ, scripted=False) == model
    assert chosen_model(environ, scripted=True) == SCRIPTED


def test_a_play_begun_with_a_real_model_does_not_go_on_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelGoneError, match="OPENAI_API_KEY"), model_at_hand("openai:gpt-6.1-sol"):
        pass


def test_a_play_is_unfinished_from_when_it_is_kept_until_it_is_finished(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.unfinished() is None
    play = folder.keep(new_play(SCRIPTED))
    assert Folder(tmp_path).unfinished() == play
    folder.finish()
    assert folder.unfinished() is None


def test_a_spoilt_memory_is_no_memory(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.keep(new_play(SCRIPTED))
    (tmp_path / "play.json").write_text("{")
    assert folder.unfinished() is None


def test_two_demos_do_not_play_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_STATE", str(tmp_path))
    with demo_folder() as folder:
        monkeypatch.setenv("PERDURE_STATE", str(tmp_path))  # as the other one has it
        with pytest.raises(DemoHeldError, match="PERDURE_STATE"), demo_folder():
            pass
        assert folder.path == tmp_path / "demo"
