"""Small chat templates, each with what matters here of the family it is named after."""

# Trims every message; writes the results of tools as JSON; tools join the first user message.
LLAMA_3 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|system|>" + system_message + "<|eot|>" }}
{%- if tools %}
    {{- "<|user|>You may call:\n" }}
    {%- for tool in tools %}{{- tool | tojson(indent=4) + "\n" }}{%- endfor %}
    {{- messages[0]['content']|trim + "<|eot|>" }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- "<|ipython|>" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- elif 'tool_calls' in message %}
        {{- "<|assistant|>" + message.tool_calls[0].function.name + "<|eot|>" }}
    {%- else %}
        {{- "<|" + message.role + "|>" + message.content|trim + "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|assistant|>" }}{%- endif %}"""

# Has a system message of its own; joins the results of tools into one user message.
QWEN_2_5 = """
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] }}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.' }}
{%- endif %}
{%- for tool in tools or [] %}{{- "\\n" + tool|tojson }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == "tool" %}
        {%- if messages[loop.index0 - 1].role != "tool" %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role != "system" or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

# Looks into messages: for the ends of tool responses, and for thoughts to leave out.
QWEN_3 = """
{%- set ns = namespace(last_query=0) %}
{%- for message in messages[::-1] %}
    {%- if message.role == "user" and not (message.content.startswith('<tool_response>')
            and message.content.endswith('</tool_response>')) %}
        {%- set ns.last_query = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "assistant" and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- set role = "user" if message.role == "tool" else message.role %}
    {{- '<|im_start|>' + role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

# Moves the system message into the last user message; checks that roles alternate.
MISTRAL = """
{%- set loop_messages = messages %}
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/...") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {{- message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Knows no system role; trims.
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {{- raise_exception('System role not supported') }}
{%- endif %}
{%- for message in messages %}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

# Leaves out messages of roles that it does not know.
PHI_3 = """{% for message in messages %}
{%- if message['role'] in ('system', 'user', 'assistant') %}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

# Takes documents, and lists whatever fields they have.
COMMAND_R = """{{ bos_token }}
{%- if documents %}
{{- '<|SYSTEM|><results>' }}
{%- for document in documents %}
    {{- '\\nDocument: ' + loop.index0|string }}
    {%- for key, value in document.items() %}{{- '\\n' + key + ': ' + value|string }}{%- endfor %}
{%- endfor %}
{{- '</results>' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|' + message.role|upper + '|>' + message.content }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|CHATBOT|>' }}{% endif %}"""

# Takes documents, with numbers if they have any.
GRANITE_3 = """
{%- if documents %}
    {%- for document in documents %}
        {{- '<|role|>document {"document_id": "' + document['doc_id']|string + '"}<|end|>\\n' }}
        {{- document['text'] + '<|eot|>\\n' }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {{- '<|role|>' + message['role'] + '<|end|>' + message['content'] + '<|eot|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|role|>assistant<|end|>' }}{%- endif %}"""

# Takes documents and writes them as JSON; takes messages in parts.
GRANITE_4 = """
{%- if documents %}
    {{- '<|role|>system<|end|><documents>' }}
    {%- for document in documents %}{{- '\\n' + (document | tojson) }}{%- endfor %}
    {{- '\\n</documents><|eot|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|role|>' + message.role + '<|end|>' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for entry in message.content %}
            {%- if entry.type == 'text' %}{{- entry.text }}{%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|eot|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|role|>assistant<|end|>' }}{%- endif %}"""

FAMILIES = {
    "Llama 3": LLAMA_3,
    "Qwen 2.5": QWEN_2_5,
    "Qwen 3": QWEN_3,
    "Mistral": MISTRAL,
    "Gemma": GEMMA,
    "Phi 3": PHI_3,
    "Command R": COMMAND_R,
    "Granite 3": GRANITE_3,
    "Granite 4": GRANITE_4,
}


def filtered(expression: str) -> str:
    """A template that writes the content of messages through an expression."""
    return "{% for m in messages %}{% set c = m.content %}[" + expression + "]{% endfor %}:"


# What no document survives, and the word of the refusal for it.
UNSERVABLE = {
    "upper case": (filtered("{{ c|upper }}"), "changes it|leaves out"),
    "title case": (filtered("{{ c|title }}"), "changes it"),
    "HTML": (filtered("{{ c|e }}"), "changes it"),
    "indent": (filtered("{{ c|indent(2) }}"), "changes it"),
    "lines joined": (filtered("{{ c.split('\\n')|join(' ') }}"), "changes it"),
    "words": (filtered("{{ c.split()|join(' ') }}"), "changes it"),
    "JSON of JSON": (filtered("{{ c|tojson|tojson }}"), "changes it"),
    "cut short": (filtered("{{ c[:60] }}"), "cuts"),
    "first line": (filtered("{{ c.split('\\n')[0] }}"), "cuts"),
    "twice": (filtered("{{ c }}{{ c }}"), "repeats it"),
    "left out": (filtered("{{ 'x' }}"), "leaves out"),
    "at the end": ("{% for message in messages %}{{ message.content }}{% endfor %}", "ends in"),
}
