/**
 * The key that secrets are encrypted with before they are stored: 32 random bytes in base64, in a file that only the service's
 * account can read. All processes on one database need the same; the database knows which it is by a digest.
 */
import type { StoreUnavailable } from "@slipway/domain/StoreUnavailable"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto"
import { constants } from "node:fs"
import { link, mkdir, open, readFile, rm } from "node:fs/promises"
import path from "node:path"
import { OptionNames } from "../options/OptionNames.ts"
import { guard } from "./SqlFailure.ts"

const KEY_BYTES = 32
/** AES-256-GCM with nonces and tags of the sizes that NIST SP 800-38D recommends for random nonces. */
const CIPHER = "aes-256-gcm"
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Begins what is encrypted. Another way to do so gets another number. */
const VERSION = "sealed:1:"

/** The key is not the one that the database's secrets are encrypted with, or cannot be read. Trying again does not help. */
export class SecretsKeyUnusable extends Schema.TaggedError<SecretsKeyUnusable>()("SecretsKeyUnusable", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The key of the stored secrets in ${this.file} cannot be used: ${this.problem}`
  }
}

export interface Key {
  /** Encrypts `secret`. It can be decrypted only with the same `about`, which says what it belongs to. */
  seal(secret: Redacted.Redacted, about: string): string
  /** What was sealed. Text that never was is returned as it is: it comes from before secrets were encrypted. */
  unseal(stored: Redacted.Redacted, about: string): Redacted.Redacted
}

const keyOf = (key: Buffer): Key => ({
  seal: (secret, about) => {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(about))
    const sealed = Buffer.concat([nonce, cipher.update(Redacted.value(secret), "utf8"), cipher.final(), cipher.getAuthTag()])
    return VERSION + sealed.toString("base64")
  },
  unseal: (stored, about) => {
    const text = Redacted.value(stored)
    if (!isSealed(text)) return stored
    const sealed = Buffer.from(text.slice(VERSION.length), "base64")
    const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES))
      .setAAD(Buffer.from(about)).setAuthTag(sealed.subarray(-TAG_BYTES))
    return Redacted.make(Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString("utf8"))
  }
})

const isSealed = (text: string): boolean => text.startsWith(VERSION)

/** Tells two keys apart and nothing of either. */
const digestOf = (key: Buffer): string => createHmac("sha256", key).update("slipway secrets key").digest("base64url")

const read = (file: string) =>
  Effect.tryPromise({
    try: () =>
      readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return null
        throw error
      }),
    catch: (cause) => new SecretsKeyUnusable({ file, problem: cause instanceof Error ? cause.message : String(cause) })
  }).pipe(Effect.flatMap((text) => {
    const key = Buffer.from(text ?? "", "base64")
    return text === null ?
      Effect.succeed(null)
      : key.length === KEY_BYTES ?
      Effect.succeed(key)
      : Effect.fail(
        new SecretsKeyUnusable({
          file,
          problem: `it must hold ${KEY_BYTES} bytes in base64, as openssl rand -base64 ${KEY_BYTES} prints them.`
        })
      )
  }))

/** A new key, on the disk for good before anything is encrypted with it. The file of another process that was first stays. */
const make = (file: string) =>
  Effect.tryPromise({
    try: async () => {
      await mkdir(path.dirname(file), { recursive: true })
      const draft = `${file}.${randomBytes(6).toString("hex")}`
      const handle = await open(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
      try {
        await handle.writeFile(`${randomBytes(KEY_BYTES).toString("base64")}\n`)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await link(draft, file).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error
      }).finally(() => rm(draft, { force: true }))
      const folder = await open(path.dirname(file))
      await folder.sync().finally(() => folder.close())
    },
    catch: (cause) => new SecretsKeyUnusable({ file, problem: cause instanceof Error ? cause.message : String(cause) })
  })

const DIGEST = "secrets_key"

export class SecretsKey extends Context.Service<SecretsKey, {
  /** Reads the key, or makes it when no secret was ever stored in this database. */
  readonly get: Effect.Effect<Key, SecretsKeyUnusable | StoreUnavailable>
  /** Fails when this process could not read what is stored. Makes nothing. */
  readonly check: Effect.Effect<void, SecretsKeyUnusable | StoreUnavailable>
}>()("@slipway/adapters/secrets/SecretsKey") {
  static readonly layer = ({ file }: { readonly file: string }) =>
    Layer.effect(
      SecretsKey,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const nameOf = yield* OptionNames
        let known: Key | null = null

        const digest = Effect.map(
          guard(sql<{ readonly value: string }>`SELECT value FROM secrets WHERE name = ${DIGEST}`),
          ([row]) => row?.value ?? null
        )
        const refuse = (problem: string) => new SecretsKeyUnusable({ file, problem })
        const compare = Effect.fnUntraced(function*(key: Buffer | null, digest: string) {
          if (key === null) {
            return yield* refuse(
              "it is not there. Put a copy of the file of the process that stored the first secret there, or name one with " +
                `${nameOf("secretsKeyFile")}.`
            )
          }
          if (digestOf(key) !== digest) {
            return yield* refuse(
              "the secrets in this database are encrypted with another key. All processes on one database need the same file: " +
                `name it with ${nameOf("secretsKeyFile")}.`
            )
          }
          return key
        })
        const check = Effect.gen(function*() {
          const wanted = yield* digest
          if (wanted !== null) yield* compare(yield* read(file), wanted)
        })
        const load = Effect.gen(function*() {
          const wanted = yield* digest
          if (wanted !== null) return yield* compare(yield* read(file), wanted)
          if ((yield* read(file)) === null) yield* make(file)
          const key = yield* read(file)
          if (key !== null) yield* guard(sql`INSERT INTO secrets (name, value) VALUES (${DIGEST}, ${digestOf(key)}) ON CONFLICT DO NOTHING`)
          // Another process may have been first.
          return yield* compare(key, (yield* digest) ?? "")
        })
        return SecretsKey.of({
          get: Effect.suspend(() => known !== null ? Effect.succeed(known) : Effect.map(load, (key) => known = keyOf(key))),
          check
        })
      })
    )

  /** A key that ends with this process, and with it what was sealed. For tests. */
  static readonly layerEphemeral = Layer.sync(SecretsKey, () => {
    const key = keyOf(randomBytes(KEY_BYTES))
    return SecretsKey.of({ get: Effect.succeed(key), check: Effect.void })
  })
}
