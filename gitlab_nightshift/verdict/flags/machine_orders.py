"""How a text speaks to an AI that reviews or works here: a closed table of turns of phrase.

Words such as "agent" and "bot" name much else: with them alone a sentence counts only where it
asks for a verdict on the very change that it stands in.
"""

import re

_KIND = r"(?:agent|assistant|bot|model|tool|system|AI|LLM)s?"
_MODEL = r"(?:AIs?|A\.I\.|LLMs?|language models?|copilot|claude|chatgpt|gpt-?\d?|codex|gemini)"
_REVIEWER = (
    r"(?:(?:AI|LLM|automated|automatic|bot|machine)[ -](?:based )?"
    r"(?:code[ -]|merge request |MR |PR )?"
    rf"(?:review(?:er|ing)?s?|audit(?:or)?s?)(?: {_KIND})?"
    rf"|(?:code )?review(?:er|ing)?[ -]{_KIND}|code ?rabbit)"
)
_WORKER = rf"(?:(?:AI|LLM|coding|code|automated|nightshift)[ -]{_KIND}|chat-?bots?)"
_ANY = rf"(?:{_REVIEWER}|{_WORKER}|{_MODEL})"
_ALL = rf"(?:{_ANY}|agents?|assistants?|bots?|models?)"
_MODAL = r"(?:should|must|shall|are to|is to|may|can|please|needs? to|have to|has to)"
_QUIET = r"(?:report no|not (?:flag|report|mention|comment|review))"
_VERDICT = rf"(?:approve|merge|ignore|skip|accept|trust|pass|{_QUIET})\b"
_CHANGE = r"(?:change|diff|merge request|MR|PR|pull request|commit|patch)s?\b"
_THIS = (
    rf"(?:this|these|the following) (?:{_CHANGE}|(?:file|function|class|method|module|line|code"
    r"|finding|section|page|document|warning|rule)s?\b)"
)
_ORDER = (
    r"(?:approve|exempt|skip|LGTM|report no|no (?:findings?|comments?|issues)"
    r"|nothing to (?:see|flag)"
    r"|(?:reply|respond|answer)\b|do not (?:flag|report)|don't (?:flag|report)"
    r"|ignore (?:this|the|all|any)\b"
    r"|(?:been|was|is) (?:already )?(?:reviewed|checked|verified|approved))"
)
_EARLIER = r"(?:previous|prior|above|earlier|preceding)"
_RULES = r"(?:instructions?|prompts?|guidelines|guardrails|directives)"

_LIKELY = re.compile(
    r"\b(?:AIs?|A\.I|LLMs?|bots?|chat-?bot|agents?|assistants?|models?|copilot|claude|chatgpt|gpt"
    r"|codex|gemini|code ?rabbit|review|system|approve|ignore|disregard|forget|override|bypass"
    r"|reveal your|safe|LGTM|reply|respond|answer|output|automat|machine|language|humans?"
    r"|maintainers?)",
    re.IGNORECASE,
)
"""One of these stands in whatever speaks to a machine: a quick look at every other line."""


def order(text: str) -> re.Match[str] | None:
    """Where a text begins to speak to a machine; None where it does not."""
    return _ORDERS.search(text) if _LIKELY.search(text) else None


_ORDERS = re.compile(
    "|".join(
        (
            # forget what you were told
            rf"\b(?:ignore|disregard|forget|override|bypass)\b.{{0,40}}\b{_EARLIER}\b.{{0,20}}\b{_RULES}\b",
            rf"\b(?:ignore|disregard|forget)\b.{{0,40}}\b{_EARLIER}\b[^.;]{{0,20}}\b(?:rules|context)\b",
            rf"\b(?:ignore|disregard|forget|override)\b.{{0,20}}\b(?:{_RULES}|rules?)\b.{{0,12}}"
            r"\b(?:above|before this|so far|(?:you (?:were|have been) )?given)\b",
            r"\b(?:ignore|disregard|forget|override|bypass)\b (?:your|the system|system|its|all"
            r"(?: of)?(?: the| your)?)\b.{0,12}\b(?:instructions|system prompt|guidelines"
            r"|guardrails)\b",
            r"\b(?:ignore|disregard|forget) (?:everything|anything|all|whatever)\b.{0,20}"
            r"\b(?:above|before this|so far)\b",
            r"\b(?:new|updated|revised) system (?:prompt|instructions?)\s*:",
            r"\breveal your (?:system )?prompt\b",
            # who is spoken to
            rf"\b(?:to|for)[ :,]+(?:all |any |the )?{_REVIEWER}\s*[:,]",
            r"\b(?:dear|hey|attention|(?:notes?|instructions?|messages?) (?:to|for))[ :,]+"
            rf"(?:all |any |the )?(?:reviewing )?{_ANY}\b[^.:,;\n]{{0,30}}[:,]",
            rf"\b(?:instructions?|dear|note to|message to)\b.{{0,12}}\breviewing {_KIND}\b",
            rf"\b(?:{_ANY}|models?|bots?|agents?|assistants?) (?:that |who |which )?"
            r"(?:review|check|judg)(?:s|es|e|ing)? this\b[^.\n]{0,60}"
            r"\b(?:approve|fine|skip|ignore)\b",
            rf"(?:^|[#/*<>!(@-])[\s*`]*@?{_ANY}[*`]*\s*:.{{0,160}}\b{_ORDER}",
            rf"(?:^|[#/*<>!(@-])[\s*`]*@?(?:note\s+)?{_ALL}[*`]*\s*:.{{0,120}}"
            r"\b(?:approve|LGTM|report no|(?:do not|don't) (?:flag|report)|ignore (?:this|the))\b",
            r"\b(?:if|when|since) you(?:'re| are) (?:an? )?(?:AI|LLM|language model"
            rf"|(?:coding |code |AI |reviewing |automated ){_KIND})\b",
            rf"\bas an? (?:{_REVIEWER}|{_WORKER}|AI|LLM),? you\b",
            r"\byou are (?:now )?(?:an? |in )?(?:AI|LLM|language model|approval mode)\b.{0,80}"
            r"\b(?:approve|ignore (?:all|any|previous|the))\b",
            # what it should say
            rf"\b{_REVIEWER}\b[^.\n]{{0,20}}\b{_MODAL}\b[^.,;:\n]{{0,40}}\b{_VERDICT}",
            rf"\b{_ANY}\b[^.\n]{{0,20}}\b{_MODAL}\b[^.;\n]{{0,20}}\b{_VERDICT}[^.;\n]{{0,20}}"
            rf"(?:{_THIS}|the {_CHANGE}|the (?:verification|review)\b)",
            rf"\b{_ALL}\b[^.\n]{{0,20}}\b{_MODAL}\b[^.;\n]{{0,20}}\b(?:approve|{_QUIET})\b"
            rf"[^.;\n]{{0,20}}{_THIS}",
            r"(?:\bplease|\band|[:;,]|\bnow|\bmust|\bshould) approve this "
            rf"{_CHANGE}",
            r"\bmark (?:this|it) as (?:safe|approved)\b",
            r"\b(?:automatically|always|immediately) approve (?:this|these)\b",
            rf"\bapprove (?:this|the) {_CHANGE}.{{0,40}}\b(?:without (?:any |further )?(?:comments?"
            r"|review\w*|reading|checks?|questions)|immediately|automatically|right away)",
            r"\b(?:exempt|excluded|excused) from (?:all |any )?(?:AI|LLM|automated|bot|machine)[ -]"
            r"(?:code[ -])?review",
            r"\b(?:reply|respond|answer|output) (?:only |just )(?:with )?[\"'“`]*"
            r"(?:LGTM|approved?\b|looks good)",
            r"\b(?:do not|don't|never) (?:flag|report|mention|reveal|tell|show) "
            r"(?:this|it|these|that|anything)\b.{0,30}\b(?:reviewers?|humans?|maintainers?)\b",
            rf"\b(?:do not|don't|never) (?:flag|report|mention|review) "
            rf"(?:this|these|the following)\b.{{0,40}}\b{_ANY}\b",
        )
    ),
    re.IGNORECASE,
)
