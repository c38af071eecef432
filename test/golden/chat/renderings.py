"""Renders whole templates with jinja2 as jinja2.py does, and writes renderings.json: a hash for each template and conversation.

    node renderings.mjs | TZ=UTC python3 renderings.py FOLDER...    # the folders have the *.jinja

Of a conversation the hash is that of all its renderings as a JSON list, null where jinja2 refuses one.
"""

import hashlib
import importlib.util
import json
import sys
from pathlib import Path

here = Path(__file__).parent
# This file's folder comes first otherwise, and in it a jinja2.
sys.path.pop(0)
spec = importlib.util.spec_from_file_location("environment_of_transformers", here / "jinja2.py")
transformers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(transformers)

from jinja2 import Undefined  # noqa: E402
from jinja2.sandbox import SandboxedEnvironment  # noqa: E402


def as_list(value):
    if isinstance(value, Undefined):
        raise TypeError("undefined")
    return list(value)


def environment():
    """That of transformers, but for what is otherwise in ours: test/chat/jinja2.test.ts has the reasons."""
    env = transformers.environment()
    # Lists can grow, as Kimi K2's template has them.
    env.is_safe_attribute = lambda obj, name, value: SandboxedEnvironment.is_safe_attribute(env, obj, name, value)
    # Generators and views are lists, as DeepSeek R1's template has them.
    env.filters["tojson"] = lambda x, ensure_ascii=False, **more: json.dumps(x, ensure_ascii=ensure_ascii, default=as_list, **more)
    # Nothing is escaped unasked: Functionary's template writes `safe` and means text.
    env.filters["safe"] = lambda text: text
    # Not jinja2's: templates of DeepSeek's kind read arguments so.
    env.filters["from_json"] = json.loads
    return env


def rendered(template, variables):
    try:
        return template.render(json.loads(json.dumps(variables)))
    except Exception:
        return None


def main():
    conversations = json.load(sys.stdin)
    hashes = {}
    for path in sorted(path for folder in sys.argv[1:] for path in Path(folder).glob("*.jinja")):
        template = environment().from_string(path.read_text(encoding="utf8"))
        hashes.setdefault(path.stem, {})
        for name, all in conversations.items():
            texts = [rendered(template, variables) for variables in all]
            written = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
            hashes[path.stem][name] = hashlib.sha256(written.encode()).hexdigest()[:12]
    (here / "renderings.json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf8")
    print(len(hashes), "templates,", len(conversations), "conversations")


main()
