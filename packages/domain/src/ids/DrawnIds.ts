/** `Ids` from one source of randomness, in plain code. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { digest, uuid5 } from "./Digest.ts"
import { Ids, NAMESPACE } from "./Ids.ts"

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

/** `next`: uniform in [0, 1). The ids are as predictable as `next` is. */
export const drawnFrom = (next: () => number): Ids["Service"] => {
  const draw = (alphabet: string, length: number) =>
    Array.from({ length }, () => alphabet.charAt(Math.floor(next() * alphabet.length))).join("")
  const hex = (length: number) => draw("0123456789abcdef", length)
  return Ids.of({
    random: (alphabet, length) => Effect.sync(() => draw(alphabet, length)),
    // RFC 9562, section 5.7.
    uuid7: Effect.map(Clock.currentTimeMillis, (now) => {
      const time = now.toString(16).padStart(12, "0")
      return [time.slice(0, 8), time.slice(8), `7${hex(3)}`, draw("89ab", 1) + hex(3), hex(12)].join("-")
    }),
    ulid: Effect.map(
      Clock.currentTimeMillis,
      (now) => Array.from({ length: 10 }, (_, i) => CROCKFORD.charAt(Math.floor(now / 32 ** (9 - i)) % 32)).join("") + draw(CROCKFORD, 16)
    ),
    derive: (name) => uuid5(NAMESPACE, name),
    digest
  })
}
