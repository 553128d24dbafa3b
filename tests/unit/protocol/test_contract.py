"""The example in the published protocol, byte for byte."""

from __future__ import annotations

from hami_operator.protocol import decision, handshake, register

NVIDIA_HANDSHAKE = "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895"
MLU_HANDSHAKE = "Requesting_2024.01.10 04:06:57"
MLU_REGISTER = (
    "MLU-45013011-2257-0000-0000-000000000000,10,23308,0,MLU-MLU370-X4,0,false:"
    "MLU-54043011-2257-0000-0000-000000000000,10,23308,0,"
)
NVIDIA_REGISTER = (
    "GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
)
DECISION = (
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,3000,0:;"
    "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448,NVIDIA,5000,0:;"
)


def v100(id: str, index: int) -> register.Card:
    return register.Card(
        id=id,
        index=index,
        count=10,
        memory_mib=32768,
        cores=100,
        model="NVIDIA-Tesla V100-PCIE-32GB",
        mode="hami-core",
    )


def test_the_nvidia_register_of_the_example_is_read_and_written_again() -> None:
    read = register.decode(NVIDIA_REGISTER)

    assert read == register.Register(
        form=register.Form.TEXT,
        cards=(
            v100("GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec", 0),
            v100("GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448", 1),
        ),
    )
    assert register.encode(read.cards, read.form) == NVIDIA_REGISTER


def test_the_mlu_register_of_the_example_gives_one_card_and_one_finding() -> None:
    """Its second entry breaks off after six fields."""
    mlu = register.Card(
        id="MLU-45013011-2257-0000-0000-000000000000",
        index=0,
        count=10,
        memory_mib=23308,
        cores=0,
        model="MLU-MLU370-X4",
        mode="hami-core",
        healthy=False,
    )
    assert register.decode(MLU_REGISTER) == register.Register(
        form=register.Form.TEXT,
        cards=(mlu,),
        findings=(register.Finding(entry=1, field="fields"),),
    )


def test_the_handshakes_of_the_example_are_an_answer_and_a_question() -> None:
    asked = handshake.requested_at(MLU_HANDSHAKE)

    assert handshake.classify(NVIDIA_HANDSHAKE) is handshake.Kind.ANSWER
    assert handshake.classify(MLU_HANDSHAKE) is handshake.Kind.REQUESTING
    assert asked is not None
    assert handshake.encode(asked) == MLU_HANDSHAKE


def test_the_decision_of_the_example_is_written_for_its_request_and_read_again() -> None:
    """Two containers, 3G and 5G on one card."""
    card = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
    slots = (
        (decision.Pick(id=card, memory_mib=3000, cores=0),),
        (decision.Pick(id=card, memory_mib=5000, cores=0),),
    )
    assert decision.encode(slots, "NVIDIA") == DECISION
    assert decision.decode(DECISION, key="hami.io/vgpu-devices-to-allocate") == slots
