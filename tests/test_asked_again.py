"""Asking again: a draft that asks the user for what the run already knows."""

from __future__ import annotations

import datetime
import decimal
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk._slot import Slot
from repeatguard_sdk.detectors.asked_again import Asked, find_asked
from repeatguard_sdk.exceptions import ToolDeclarationError

KNOWN: dict[str, Any] = {
    "order_id": "SO-1042",
    "email": "ada@example.com",
    "phone": "+49 30 1234567",
    "name": "Ada Lovelace",
    "address": "12 Main Street, Berlin",
    "date_of_birth": datetime.date(1990, 5, 17),
    "amount": decimal.Decimal("1200.50"),
    "zip": "10115",
    "account_number": "DE77-1234",
    "tracking_number": None,
}
SLOTS = [Slot(name) for name in (*KNOWN, "first_name", "delivery_date", "serial_number")]

ASKS = [
    ("What is your order number?", "order_id"),
    ("Could you please provide your order number?", "order_id"),
    ("Could you tell me the order ID so that I can look into it?", "order_id"),
    ("I'll need your e-mail address to go on.", "email"),
    ("Please share your order no. and a photo of the damage.", "order_id"),
    ("please give me a photo of the parcel and your order number", "order_id"),
    ("May I have your full name, please?", "name"),
    ("Can I get your phone number?", "phone"),
    ("Let me know your date of birth.", "date_of_birth"),
    ("Kindly confirm your email address.", "email"),
    ("Please provide:\n- your order number\n- your email", "order_id"),
    ("To help you I need the following:\n\n1. **Serial number**\n2. **Order ID**\n", "order_id"),
    ("Thanks, Ada! And your email address, please?", "email"),
    ("Order number?", "order_id"),
    ("I'm sorry to hear that. What's the email you used for the order?", "email"),
    ("Would you mind sharing the order # again?", "order_id"),
    ("Do you have your order number handy?", "order_id"),
    ("I was wondering if you could send me your account number.", "account_number"),
    ("Please tell me what your zip code is.", "zip"),
    ("Under what name was the booking made?", "name"),
    ("What amount should I refund?", "amount"),
    ("Can you share the ID of your order?", "order_id"),
    ("Before I can go on (approx. 2 min.), I still need your postal code.", "zip"),
    ("Enter your phone number, e.g. +49 30 555, to go on.", "phone"),
    ("WHAT IS YOUR ORDER NUMBER?", "order_id"),
    ("See https://shop.example/help?order=1. What is your\norder number?", "order_id"),
    ("What is the serial number? And what's your order number?", "order_id"),
    ("All I need is your order number.", "order_id"),
    ("Which email address did you use to sign up?", "email"),
    ("Please tell me what happened and your order number.", "order_id"),
    ("Could you remind me of your address?", "address"),
    ("I need to know your account no.", "account_number"),
]

STATES_THE_VALUE = [
    "I see order SO-1042, is that right?",
    "Could you confirm that your order number is SO-1042?",
    "Please confirm your order number: so-1042.",
    "Please confirm your order number (#SO1042).",
    "Can you confirm your order number, so 1042?",
    "What is your order number, SO\u20111042 or another one?",
    "Please confirm your email address, Ada@Example.com.",
    "Could you confirm your phone number: +49 (30) 123-4567?",
    "Please confirm your date of birth: 17 May 1990.",
    "Please confirm your date of birth, May 17th, 1990.",
    "Is 17.05.1990 correct, or what is your date of birth?",
    "Please confirm the amount of \u20ac1,200.50.",
    "Please confirm the amount: 1.200,50 EUR.",
    "Please confirm the amount, 1200.5.",
    "Kindly confirm your name: ADA  LOVELACE.",
    "Please confirm your address: 12 main street in Berlin.",
    "Please confirm your account number ending in 1234.",
    "Can you confirm your email, a***@example.com?",
    "Please confirm your order number. I have SO-1042 here.",
    "I have SO-1042 on file. Can you confirm the order number?",
    "Please confirm the following:\n- Order number: SO-1042\n- Email: ada@example.com",
    "What's your order number? Is it SO-1042?",
]

STATEMENTS = [
    "Your order number is on the receipt.",
    "I have your order number, thank you.",
    "Thank you for providing your order number.",
    "I sent the receipt to your email address.",
    "You will get an email with your order number shortly.",
    "Your order number? I have it already.".replace("?", "."),
    "We never need your email address for that.",
    "I don't need your order number.",
    "There is no need to send your order number.",
    "Please do not share your account number with anyone.",
    "Please keep your order number for later.",
    "Please find your order number below.",
    "Please note that your order number is on the receipt.",
    "Please have your order number ready when the driver comes.",
    "You asked whether I need your order number.",
    "They said I need your order number.",
    "The page says: please enter your order number.",
    'The mail read "What is your order number?" and nothing else.',
    "```\nprint('What is your order number?')\n```\nThat is the code.",
    "> What is your order number?\n\nThat was my question, and it is settled.",
    "If you have another order number, send it.",
    "If I need your order number, I will let you know.",
    "I will check the stock, confirm your address, and send you the label.",
    "The reason I need your order number is that I look it up there.",
    "Give the driver your order number.",
    "I looked your order number up; nothing else is needed.",
]

UNKNOWN = [
    "What is your tracking number?",
    "Could you tell me your first name?",
    "Please share the serial number.",
    "I'll need your tracking no. to go on.",
    "Please provide:\n- your serial number\n- your tracking number",
    "What is your favourite colour?",
    "Which size do you need?",
    "May I have your delivery date?",
    "What is your last name?",
    "Can you share the invoice number?",
    "What is your company name?",
    "Please give me the card number.",
    "Could you send me a photo of the parcel?",
    "What is your user name?",
    "Please enter your password.",
    "What is your IP address?",
    "What is the brand name?",
    "Can I have your customer number?",
    "Which delivery date do you prefer?",
    "Please tell me your order confirmation number.",
    "What's the reference of your complaint?",
    "Tell me the name of your company.",
]

OTHER_ITEM = [
    "What is the order number of the second parcel?",
    "Do you have a different order number?",
    "Please share the new address.",
    "What is your other email?",
    "Which of the two orders do you mean?",
    "Could you give me another phone number?",
    "Please provide an alternative email address.",
    "Please give me the correct order number.",
    "Could you send me a valid email address?",
    "What is the email address of your colleague?",
    "What is the phone number of the store?",
    "Can you tell me your wife's name?",
    "What is the name of the recipient?",
    "What is your previous address?",
    "Please share your updated address.",
    "What's their order number?",
    "May I have the order number for the other order?",
    "Which email address shall I use for the new account?",
    "What is your second phone number?",
    "What are the order numbers of all your orders?",
    "Please provide the amount of the next payment.",
    "For security, please confirm the last four digits of your account number.",
    "Could you send me a screenshot of the order number?",
    "For security, please confirm your date of birth.",
    "To verify your identity I need your zip code.",
]

ASKS_ELSE = [
    "Shall I cancel order SO-1042?",
    "Did you receive an email with your order number?",
    "Would you like me to use the address on file?",
    "Is your order number needed for that?",
    "I can look that up by order number, shall I?",
    "Is your email address still correct?",
    "Do you want to change your address?",
    "Could you tell me whether the label shows your order number?",
    "Please confirm that your address is up to date.",
    "Please let me know if your phone number changes.",
    "Let me know if you have any questions about the refund or your order number.",
    "Should I send the receipt to your email address?",
    "Do you want me to share your email address with the seller?",
    "Can I use your phone number for the delivery?",
    "What do you need your order number for?",
    "What is your order number used for?",
    "What is wrong with your email address?",
    "Could you check your email?",
    "Could you send me an email?",
    "Do you have an email with the receipt?",
    "Do you have your phone with you?",
    "Do you know where to find your order number?",
    "Did they ask for your order number?",
    "Do I need your order number for that?",
    "Looking for your order number?",
    "Where did you see the order number?",
    "Is there anything else, or shall I close the order number list?",
    "Can you enter your order number on the tracking page?",
    "Would you like to be reached by email or phone?",
    "Can you confirm the order number and the date are correct?",
]


def find(draft: str, **known: Any) -> Asked | None:
    return find_asked(draft, SLOTS, known or KNOWN)


@pytest.mark.parametrize(("draft", "slot"), ASKS)
def test_a_sentence_that_asks_for_a_known_fact_is_found(draft: str, slot: str) -> None:
    """Questions and requests, in lists and among other sentences, are found with their slot."""
    asked = find(draft)
    assert asked is not None
    assert (slot, KNOWN[slot]) == (asked.slot, asked.value)
    assert asked.sentence in draft


@pytest.mark.parametrize("draft", STATES_THE_VALUE)
def test_a_sentence_that_states_the_value_asks_for_a_yes(draft: str) -> None:
    """The value in another case, spacing, date or number format makes it a confirmation."""
    assert find(draft) is None


@pytest.mark.parametrize("draft", STATEMENTS)
def test_a_statement_asks_for_nothing(draft: str) -> None:
    """Statements, refusals to ask, quotes, code and reported speech are no questions."""
    assert find(draft) is None


@pytest.mark.parametrize("draft", UNKNOWN)
def test_asking_for_what_is_not_known_is_fine(draft: str) -> None:
    """A slot without a value, or a thing that is no slot, may be asked for."""
    assert find(draft) is None


@pytest.mark.parametrize("draft", OTHER_ITEM)
def test_asking_for_another_item_is_fine(draft: str) -> None:
    """Another one, a part, or somebody else's is not what the run knows."""
    assert find(draft) is None


@pytest.mark.parametrize("draft", ASKS_ELSE)
def test_naming_a_slot_while_asking_something_else_is_fine(draft: str) -> None:
    """A question in which the slot is not what is asked for."""
    assert find(draft) is None
