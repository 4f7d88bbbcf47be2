"""The benchmark of webhooks posts over the connections that it says it does."""

from __future__ import annotations

import pytest

from lab.bench.webhooks import TENANTS, WayToPost, endpoints


@pytest.mark.parametrize(("side_by_side", "connections"), [(True, 10), (False, 20)])
def test_two_batches_need_one_connection_to_each_endpoint_if_they_are_kept(
    side_by_side: bool, connections: int
) -> None:
    with endpoints() as (servers, trust):
        way = WayToPost(servers, trust, side_by_side)
        for _ in range(2):
            way.batch()
            assert set(servers.delivered) == set(TENANTS)
        way.close()
    assert way.connections == way.look_ups == connections
