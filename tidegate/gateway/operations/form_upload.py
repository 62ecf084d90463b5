"""A form on its way to a backend: its fields admitted, its file put."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tidegate.gateway.requests.directory import Missing
from tidegate.gateway.requests.form_admission import admit_form, file_checks
from tidegate.gateway.requests.form_intake import FormIntake

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange


async def upload_file(exchange: Exchange, intake: FormIntake) -> None:
    """The fields before the file are here: decides about the form, and sends the file on if it may go."""
    gateway, admission = exchange.gateway, exchange.admitted
    while True:
        try:
            terms = admit_form(admission, intake.form, gateway.directory, gateway.settings.gateway, time.time())
            break
        except Missing as missing:
            await gateway.directory.load(missing)
    if not exchange.finished:
        exchange.parsed = terms
        exchange.stream(intake.open(terms.size, file_checks(admission)))
