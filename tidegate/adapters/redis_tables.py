"""`Tables` on a Redis server (6.2 or later), for more than one machine.

| key                    | what                                                             |
| ---------------------- | ---------------------------------------------------------------- |
| `{NAMESPACE}:v:KEY`    | the value, with Redis's own expiry                               |
| `{NAMESPACE}:keys`     | sorted set of all keys, every score 0: ordered by their bytes    |
| `{NAMESPACE}:expiries` | sorted set of the keys that expire, by time in milliseconds      |

Every change is one script, so that value, order and expiry never disagree. A value that expired
leaves its key in the two sets; scanning passes over it and a later write sweeps it away. The braces
put all keys of an installation into one slot of a Redis cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tidegate.adapters import limits
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.ports import NOTHING_EXPECTED

TIMEOUT_SECONDS = 10.0
PAGE = 1000

_SWEEP = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  if redis.call('EXISTS', ARGV[1] .. key) == 0 then
    redis.call('ZREM', KEYS[1], key)
    redis.call('ZREM', KEYS[2], key)
  end
end
"""

# Arguments: prefix of values, key, then the value and its life in milliseconds ('' for ever).
_PUT = """
local function put(value, life)
  redis.call('ZADD', KEYS[1], 0, ARGV[2])
  if life == '' then
    redis.call('SET', ARGV[1] .. ARGV[2], value)
    redis.call('ZREM', KEYS[2], ARGV[2])
  else
    redis.call('SET', ARGV[1] .. ARGV[2], value, 'PX', life)
    redis.call('ZADD', KEYS[2], now + life, ARGV[2])
  end
end
local function remove()
  redis.call('ZREM', KEYS[1], ARGV[2])
  redis.call('ZREM', KEYS[2], ARGV[2])
  return redis.call('DEL', ARGV[1] .. ARGV[2])
end
"""

_SET = _SWEEP + _PUT + "put(ARGV[3], ARGV[4])"

_DELETE = _SWEEP + _PUT + "return remove()"

# '0' or '1' before expected and value tells absence from the empty text.
_COMPARE_AND_SET = (
    _SWEEP
    + _PUT
    + """
local found = redis.call('GET', ARGV[1] .. ARGV[2])
if ARGV[3] == '0' then
  if found then return 0 end
elseif found ~= ARGV[4] then
  return 0
end
if ARGV[5] == '0' then remove() else put(ARGV[6], ARGV[7]) end
return 1
"""
)

# Arguments: prefix of values, the number of expected entries, then those and the new ones: of each its key, '0' or '1',
# and its value.
_CHANGE = (
    _SWEEP
    + """
local last = 2 + 3 * tonumber(ARGV[2])
for at = 3, last, 3 do
  local found = redis.call('GET', ARGV[1] .. ARGV[at])
  if ARGV[at + 1] == '0' then
    if found then return 0 end
  elseif found ~= ARGV[at + 2] then
    return 0
  end
end
for at = last + 1, #ARGV, 3 do
  redis.call('ZREM', KEYS[2], ARGV[at])
  if ARGV[at + 1] == '0' then
    redis.call('ZREM', KEYS[1], ARGV[at])
    redis.call('DEL', ARGV[1] .. ARGV[at])
  else
    redis.call('ZADD', KEYS[1], 0, ARGV[at])
    redis.call('SET', ARGV[1] .. ARGV[at], ARGV[at + 2])
  end
end
return 1
"""
)

# Looks at one page of keys: the pairs that live, flat, and the marker for the next page or nothing.
_SCAN = """
local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local found = {}
if #keys > 0 then
  local names = {}
  for index, key in ipairs(keys) do names[index] = ARGV[1] .. key end
  for index, value in ipairs(redis.call('MGET', unpack(names))) do
    if value then
      found[#found + 1] = keys[index]
      found[#found + 1] = value
    end
  end
end
return {found, #keys == tonumber(ARGV[4]) and keys[#keys] or false}
"""


class RedisTables:
    reads_at_once = False

    def __init__(self, url: str, *, namespace: str = "tidegate") -> None:
        # A command that was sent and not answered may have been carried out. Repeating it would make
        # put-if-absent lose to itself, so nothing is repeated here: the caller looks again.
        try:
            self._server = redis.Redis.from_url(
                url,
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                socket_keepalive=True,
                health_check_interval=0,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError:
            # The library's own text may repeat the password.
            raise InvalidInput("tables.redis_url must look like redis://[USER:PASSWORD@]HOST:PORT/NUMBER") from None
        self._values = f"{{{namespace}}}:v:".encode()
        self._sets = [f"{{{namespace}}}:keys", f"{{{namespace}}}:expiries"]
        self._set = self._server.register_script(_SET)
        self._delete = self._server.register_script(_DELETE)
        self._compare_and_set = self._server.register_script(_COMPARE_AND_SET)
        self._change = self._server.register_script(_CHANGE)
        self._scan = self._server.register_script(_SCAN)

    def get(self, key: str) -> str | None:
        encoded = limits.table_key(key)
        with _translated():
            value: Any = self._server.get(self._values + encoded)
        return None if value is None else value.decode()

    def put(self, key: str, value: str, *, expires_in: float | None = None) -> None:
        encoded = limits.table_key(key)
        content = limits.utf8(value, "the value")
        life = _milliseconds(expires_in)
        with _translated():
            self._set(keys=self._sets, args=[self._values, encoded, content, life])

    def put_if_absent(self, key: str, value: str, *, expires_in: float | None = None) -> bool:
        return self.compare_and_set(key, None, value, expires_in=expires_in)

    def compare_and_set(
        self, key: str, expected: str | None, value: str | None, *, expires_in: float | None = None
    ) -> bool:
        encoded = limits.table_key(key)
        arguments = [*_optional(expected), *_optional(value), _milliseconds(expires_in)]
        with _translated():
            return bool(self._compare_and_set(keys=self._sets, args=[self._values, encoded, *arguments]))

    def delete(self, key: str) -> bool:
        encoded = limits.table_key(key)
        with _translated():
            return bool(self._delete(keys=self._sets, args=[self._values, encoded]))

    def change(
        self, entries: Mapping[str, str | None], *, expected: Mapping[str, str | None] = NOTHING_EXPECTED
    ) -> bool:
        given = [*expected.items(), *entries.items()]
        if not given:
            return True
        arguments = [part for key, value in given for part in (limits.table_key(key), *_optional(value))]
        with _translated():
            return bool(self._change(keys=self._sets, args=[self._values, len(expected), *arguments]))

    def scan(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        """A page of up to 1000 keys is one step; between pages other changes may come."""
        limits.scan_limit(limit)
        low, high = _lexical_range(prefix, after)
        found: list[tuple[str, str]] = []
        while len(found) < limit:
            page = min(PAGE, limit - len(found))
            with _translated():
                pairs, marker = self._scan(keys=self._sets, args=[self._values, low, high, page])
            found += [(pairs[i].decode(), pairs[i + 1].decode()) for i in range(0, len(pairs), 2)]
            if not marker:
                break
            low = b"(" + marker
        return found

    def close(self) -> None:
        self._server.close()


def _milliseconds(expires_in: float | None) -> bytes:
    """At least one: Redis refuses a life of zero."""
    return b"" if expires_in is None else b"%d" % max(1, round(limits.expiry(expires_in) * 1000))


def _optional(text: str | None) -> tuple[bytes, bytes]:
    return (b"0", b"") if text is None else (b"1", limits.utf8(text, "the value"))


def _lexical_range(prefix: str, after: str | None) -> tuple[bytes, bytes]:
    """The bounds in the notation of ZRANGEBYLEX."""
    first = limits.utf8(prefix, "the prefix")
    marker = None if after is None else limits.utf8(after, "the marker")
    low = b"(" + marker if marker is not None and marker >= first else b"[" + first
    return low, b"(" + limits.prefix_end(first) if first else b"+"


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise Unavailable(f"the Redis server did not carry out the command: {error}") from error
