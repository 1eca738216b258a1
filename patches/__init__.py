"""The places where the plugin hooks into SGLang, one module per SGLang module.

SGLang logs and swallows every error of a plugin, and a hook that is registered may
still never run. So each hook here answers a probe: :func:`verify_hooks` calls the
*target*, as SGLang will, and demands that our code answers. With ``--chunk-cache
lazy`` a server that fails this refuses to start.
"""

from sglang_lazy.patches.registry import HookError, install_hooks, verify_hooks

__all__ = ["HookError", "install_hooks", "verify_hooks"]
