/** Port: identifiers and digests. A use case asks it once per command; deciders receive what it gave as input. */
import { Clock, Context, Effect, Layer, Random } from "effect"
import { digest, uuid5 } from "./Digest.ts"

/** Any RFC 9562 UUID in lower case. */
export type Uuid = string

/** Namespace of every derived id of Slipway, fixed for ever: changing it changes every `turn_id` and `commandId`. */
export const NAMESPACE: Uuid = "9ca5d5ad-254d-48f1-8385-9aae8e1bda6d"

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

/** Port: new ids, and ids derived from names. Tests make it deterministic. */
export class Ids extends Context.Service<Ids, {
  /** `length` characters drawn uniformly from `alphabet` by a cryptographic generator. Not unique by itself. */
  random(alphabet: string, length: number): Effect.Effect<string>
  /** A new UUIDv7: unique, and ordered by the clock to the millisecond. */
  readonly uuid7: Effect.Effect<Uuid>
  /** A new ULID: 26 characters, ordered by the clock to the millisecond. */
  readonly ulid: Effect.Effect<string>
  /** UUIDv5 of `name` under {@link NAMESPACE}: the same name gives the same id on every machine. */
  derive(name: string): Uuid
  /** SHA-256 of the UTF-8 bytes of `text`, 64 lower-case hex digits. */
  digest(text: string): string
}>()("@slipway/domain/Ids") {
  /** Draws from Effect's `Random`, which is no cryptographic generator: keys minted with it can be guessed. */
  static readonly layerMemory = Layer.effect(Ids, Effect.map(Random.Random, make))

  /** The same ids in the same order for the same seed and clock. For tests. */
  static readonly layerSeeded = (seed: string | number) => Layer.effect(Ids, Effect.map(Random.Random, make).pipe(Random.withSeed(seed)))
}
