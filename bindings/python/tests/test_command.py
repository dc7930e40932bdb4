"""``python -m commonhold``, which runs the command inside the wheel."""

import subprocess
import sys

import pytest

from commonhold import __main__ as main


@pytest.mark.parametrize("package", ["commonhold", "lib/python3.11/site-packages/commonhold"])
def test_the_command_is_found_where_pip_installs_scripts(tmp_path, monkeypatch, package):
    folder, hold = tmp_path / package, tmp_path / "bin" / "hold"
    folder.mkdir(parents=True)
    monkeypatch.setattr(main, "__file__", str(folder / "__main__.py"))
    assert main.command() is None
    hold.parent.mkdir()
    hold.write_text("#!/bin/sh\n")
    assert main.command() is None  # It is not executable.
    hold.chmod(0o755)
    assert main.command() == hold


def test_a_wheel_without_the_command_names_the_way_out():
    assert main.command() is None
    run = subprocess.run([sys.executable, "-m", "commonhold", "list"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (3, "")
    assert "./package" in run.stderr
