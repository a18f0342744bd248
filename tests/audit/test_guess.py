"""What a tool does, guessed from its name."""

from __future__ import annotations

import pytest

from repeatguard_sdk.audit._guess import guess_effect


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("get_order_details", "read"),
        ("searchFlights", "read"),
        ("list-files", "read"),
        ("find_user_id_by_email", "read"),
        ("calculate", "read"),
        ("grep", "read"),
        ("mcp__github__list_issues", "read"),
        ("cancel_reservation", "write"),
        ("book_flight", "write"),
        ("send_email", "write"),
        ("update_order_status", "write"),
        ("create_plan_subscription", "write"),
        ("github.create_issue", "write"),
        ("check_job_status", "live"),
        ("poll", "live"),
        ("get_current_time", "live"),
        ("wait", "live"),
        ("ask_user", "ask"),
        ("clarify", "ask"),
        ("think", "bookkeeping"),
        ("TodoWrite", "bookkeeping"),
        ("transfer_to_human_agents", "final"),
        ("submit", "final"),
        ("final_answer", "final"),
        ("finish", "final"),
        ("transfer_money", "write"),
        ("bash", "unknown"),
        ("execute_python", "unknown"),
        ("run_terminal_cmd", "unknown"),
        ("frobnicate", "unknown"),
        ("", "unknown"),
        ("___", "unknown"),
        ("日本語", "unknown"),
    ],
)
def test_a_name_suggests_an_effect(name: str, effect: str) -> None:
    """The first verb decides, and what says nothing may change anything."""
    assert effect == guess_effect(name)
