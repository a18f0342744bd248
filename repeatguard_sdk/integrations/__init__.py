"""Adapters: the guard inside a framework, in that framework's own word; one module each.

Import the one you use, such as `repeatguard_sdk.integrations.openai_agents`; its framework comes with
the extra of the same name. Their names follow their frameworks and may change with them.
"""
