/** Short templates of our own in the common notations: what a clone without ../shared tests with. */
export const ownTemplates: Readonly<Record<string, string>> = {
  hermes: `{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Answer calls as <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role != 'system' %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`,
  llama3: `{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>

{% if loop.first and tools %}Call with {"name": name, "parameters": arguments}.
{% for t in tools %}{{ t | tojson(indent=4) }}
{% endfor %}{% endif %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('only one call at once') }}{% endif %}{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`,
  mistral: `{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% for m in messages %}{% if m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids have 9 characters') }}{% endif %}[TOOL_RESULTS]{"call_id": "{{ m.tool_call_id }}", "content": "{{ m.content }}"}[/TOOL_RESULTS]{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments }}, "id": "{{ c.id }}"}{{ ', ' if not loop.last }}{% endfor %}]{{ eos_token }}{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% else %}[INST] {{ m.content }}[/INST]{% endif %}{% endfor %}`,
  gemma: `{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{{ m.content | trim }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}`,
  typed: `{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}</{{ m.role }}>{% endfor %}`,
  thinking: `{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>
{% endif %}`,
};
