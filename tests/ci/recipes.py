"""Reading the recipes of docs/ci as GitHub, GitLab and Jenkins do: which shell steps an event runs,
with which environment. Only what the recipes use is understood; anything else is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docs/ci"
SECRETS = {  # what the three call each secret, in this order
    "AWS_ACCESS_KEY_ID": ("CACHE_KEY_ID", "kernel-cache-key-id"),
    "AWS_SECRET_ACCESS_KEY": ("CACHE_KEY", "kernel-cache-key"),
    "SIGNING_KEY": ("SIGNING_KEY", "kernel-signing-key"),
    "GRISTMILL_OCI_USER": ("REGISTRY_USER", "kernel-registry-user"),
    "GRISTMILL_OCI_PASSWORD": ("REGISTRY_PASSWORD", "kernel-registry-password"),
}


@dataclass(frozen=True)
class Event:
    """What happened: `pull` (a pull request), `main` (a push to it) or `tag` of a commit."""

    kind: str
    commit: str
    tag: str = ""

    @property
    def trusted(self) -> bool:
        """Whether the service hands out secrets."""
        return self.kind != "pull"


@dataclass(frozen=True)
class Step:
    """A shell step. shell: the command that is given the script's file."""

    name: str
    shell: tuple[str, ...]
    script: str
    environment: dict[str, str]


@dataclass(frozen=True)
class Site:
    """What has been set up: variables for all, secrets, and a folder for files of this run."""

    variables: Mapping[str, str]
    secrets: Mapping[str, str]
    temporary: Path


def github(event: Event, site: Site) -> list[Step]:
    """The steps of github-actions.yml."""
    recipe = yaml.safe_load((FOLDER / "github-actions.yml").read_text())
    refs = {"pull": "refs/pull/1/merge", "main": "refs/heads/main", "tag": f"refs/tags/{event.tag}"}
    ref = refs[event.kind]
    names = {
        "github.event_name": "pull_request" if event.kind == "pull" else "push",
        "github.ref": ref,
        **{f"vars.{name}": value for name, value in site.variables.items()},
    }
    given = {
        "GITHUB_SHA": event.commit,
        "GITHUB_REF_NAME": ref.rpartition("/")[2],
        "RUNNER_TEMP": str(site.temporary),
    }
    found = []
    for job in recipe["jobs"].values():
        if not _condition(job["if"], names):
            continue
        known = dict(names)
        if event.trusted and job.get("environment") == "kernels":
            known |= {f"secrets.{SECRETS[name][0]}": text for name, text in site.secrets.items()}
        for step in job["steps"]:
            if "uses" in step:  # what is only there
                assert step["uses"].startswith(("actions/checkout@", "actions/setup-python@"))
                continue
            stated = {**recipe["env"], **job.get("env", {}), **step.get("env", {})}
            filled = {name: _filled(value, known) for name, value in stated.items()}
            found.append(Step(step["name"], ("bash", "-e"), step["run"], {**given, **filled}))
    return found


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: names.get(found[1], ""), text)


def _condition(text: str, names: Mapping[str, str]) -> bool:
    """An expression of comparisons and startsWith(), joined by &&."""
    for part in text.split(" && "):
        if found := re.fullmatch(r"([\w.]+) == '([^']*)'", part):
            fits = names[found[1]] == found[2]
        else:
            found = re.fullmatch(r"startsWith\(([\w.]+), '([^']*)'\)", part)
            assert found, f"not understood: {part}"
            fits = names[found[1]].startswith(found[2])
        if not fits:
            return False
    return True


def gitlab(event: Event, site: Site) -> list[Step]:
    """The scripts of gitlab-ci.yml, each of which GitLab runs in one shell."""
    recipe = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text())
    known = {
        **site.variables,
        "CI_PIPELINE_SOURCE": "merge_request_event" if event.kind == "pull" else "push",
        "CI_COMMIT_SHA": event.commit,
        "CI_PROJECT_DIR": str(site.temporary / "project"),
        **({"CI_COMMIT_BRANCH": "main"} if event.kind == "main" else {}),
        **({"CI_COMMIT_TAG": event.tag} if event.kind == "tag" else {}),
        **(site.secrets if event.trusted else {}),
    }
    found = []
    for name, job in recipe.items():
        if name in ("image", "variables", "default") or not any(
            _rule(rule["if"], known) for rule in job["rules"]
        ):
            continue
        stated = {**recipe["variables"], **job["variables"]}
        # A variable of the project stands above one of the file.
        filled = {key: known.get(key, _expanded(text, known)) for key, text in stated.items()}
        script = "\n".join([*recipe["default"]["before_script"], *job["script"]])
        found.append(Step(name, ("bash", "-eo", "pipefail"), script, {**known, **filled}))
    return found


def _expanded(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: names.get(found[1], ""), text)


def _rule(text: str, names: Mapping[str, str]) -> bool:
    for part in text.split(" && "):
        if found := re.fullmatch(r'\$(\w+) == "([^"]*)"', part):
            fits = names.get(found[1]) == found[2]
        else:
            found = re.fullmatch(r"\$(\w+) =~ /([^/]*)/", part)
            assert found, f"not understood: {part}"
            fits = found[1] in names and re.search(found[2], names[found[1]]) is not None
        if not fits:
            return False
    return True


def jenkins(event: Event, site: Site) -> list[Step]:
    """The sh steps of the Jenkinsfile."""
    text = re.sub(r"^\s*//.*$", "", (FOLDER / "Jenkinsfile").read_text(), flags=re.M)
    top = text[: text.index("stages {")]
    given = {"GIT_COMMIT": event.commit, "TAG_NAME": event.tag}
    found = []
    stages = re.split(r"stage\('([^']+)'\)", text)[1:]
    for name, body in zip(stages[::2], stages[1::2], strict=True):
        if not _when(re.search(r"when \{ (.*) \}", body), event):
            continue
        environment = {**_settings(top, site, event), **_settings(body, site, event), **given}
        for script in re.findall(r"sh '''(.*?)'''", body, re.S):
            found.append(Step(name, ("sh", "-e"), script, environment))
    return found


def _when(found: re.Match[str] | None, event: Event) -> bool:
    if found is None:
        return True
    known = {"changeRequest()": "pull", "branch 'main'": "main", "tag 'v*'": "tag"}
    return known[found[1]] == event.kind


def _settings(text: str, site: Site, event: Event) -> dict[str, str]:
    """The environment block of the pipeline or of a stage."""
    settings: dict[str, str] = {}
    for name, value in re.findall(r"^\s+([A-Z_]+) = (.+)$", text, re.M):
        settings[name] = _value(name, value, site, event)
    return settings


def _value(name: str, value: str, site: Site, event: Event) -> str:
    if found := re.fullmatch(r"'([^']*)'", value):
        return found[1]
    if found := re.fullmatch(r"\"\$\{env\.(\w+)(?: \?: '')?\}\"", value):
        return site.variables.get(found[1], "")
    found = re.fullmatch(r"credentials\('([^']*)'\)", value)
    assert found, f"not understood: {value}"
    assert event.trusted, "a pull request has no credentials"
    plain = name.removesuffix("_FILE")
    assert found[1] == SECRETS[plain][1]
    if name == plain:
        return site.secrets[plain]
    file = site.temporary / "secret-file"
    file.unlink(missing_ok=True)
    file.write_text(site.secrets[plain])
    file.chmod(0o400)  # as Jenkins hands out files
    return str(file)


READERS: dict[str, Any] = {"github": github, "gitlab": gitlab, "jenkins": jenkins}
