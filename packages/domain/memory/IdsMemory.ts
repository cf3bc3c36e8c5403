/** `Ids` of Effect's `Random`: for tests and for embedding. */
import { Clock, Effect, Layer, Random } from "effect"
import { digest, uuid5 } from "../src/Digest.ts"
import { Ids, NAMESPACE } from "../src/Ids.ts"

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const make = (random: Random.Random) => {
  const draw = (alphabet: string, length: number) =>
    Array.from({ length }, () => alphabet.charAt(Math.floor(random.nextDoubleUnsafe() * alphabet.length))).join("")
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

/** Draws from Effect's `Random`, which is no cryptographic generator: keys minted with it can be guessed. */
export const layer = Layer.effect(Ids, Effect.map(Random.Random, make))

/** The same ids in the same order for the same seed and clock. For tests. */
export const layerSeeded = (seed: string | number) => Layer.effect(Ids, Effect.map(Random.Random, make).pipe(Random.withSeed(seed)))
