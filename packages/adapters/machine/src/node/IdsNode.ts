/** `Ids` on Node's cryptography. */
import { Ids, NAMESPACE } from "@slipway/domain/ids/Ids"
import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { hash, randomInt } from "node:crypto"

const namespace = Buffer.from(NAMESPACE.replaceAll("-", ""), "hex")

/** RFC 9562, section 5.5. */
const uuid5 = (name: string): string => {
  const bytes = hash("sha1", Buffer.concat([namespace, Buffer.from(name, "utf8")]), "buffer").subarray(0, 16)
  bytes[6] = (bytes[6] ?? 0) & 0x0f | 0x50
  bytes[8] = (bytes[8] ?? 0) & 0x3f | 0x80
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/u, "$1-$2-$3-$4-$5")
}

export const layer = Layer.effect(
  Ids,
  Effect.map(SecureRandom.SecureRandom, (random) =>
    Ids.of({
      random: (alphabet, length) => Effect.sync(() => Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join("")),
      uuid7: Effect.orDie(random.uuidV7()),
      ulid: random.ulid,
      derive: uuid5,
      digest: (text) => hash("sha256", text, "hex")
    }))
).pipe(Layer.provide(SecureRandom.layerWebCrypto))
