/**
 * The key that secrets are encrypted with before they are stored: 32 random bytes in base64, in a file that only the service's
 * account can read, or from a program of the operator. All processes on one database need the same; the database knows which it is by a
 * digest. There may be several, a line each: the first one encrypts, all decrypt.
 */
import { ifAbsent, ifCode } from "@slipway/domain/files/rules/SystemError"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, Effect, Layer, Redacted, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto"
import { constants } from "node:fs"
import { link, mkdir, open, readFile, rm } from "node:fs/promises"
import path from "node:path"
import { OptionNames } from "../options/OptionNames.ts"
import { guard } from "../sql/SqlFailure.ts"
import * as KeyCommand from "./KeyCommand.ts"

const KEY_BYTES = 32
/** A replacement needs two. */
const MAX_KEYS = 8
/** AES-256-GCM with nonces and tags of the sizes that NIST SP 800-38D recommends for random nonces. */
const CIPHER = "aes-256-gcm"
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Begins what is encrypted. Another way to do so gets another number. */
const VERSION = "sealed:1:"

/** The key cannot be read, or does not decrypt the secrets of the database. A retry does not help. */
export class SecretsKeyUnusable extends Schema.TaggedError<SecretsKeyUnusable>()("SecretsKeyUnusable", {
  /** The file, or the program. */
  source: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The key of the stored secrets ${this.source} cannot be used: ${this.problem}`
  }
}

/** Where the key is. */
export type KeySource = { readonly file: string } | { readonly command: KeyCommand.KeyCommand }

/** For messages. The arguments of a program are left out. */
const sourceOf = (from: KeySource): string => "file" in from ? `in ${from.file}` : `from the program ${from.command.program}`

const refusedIn = (from: KeySource) => (problem: string) => new SecretsKeyUnusable({ source: sourceOf(from), problem })

export interface Key {
  /** Encrypts `secret`. It can be decrypted only with the same `about`, which says what it belongs to. */
  seal(secret: Redacted.Redacted, about: string): string
  /** The secret that was sealed for `about`; `null`: sealed for another purpose or with a key that the file lacks, or changed since. */
  open(stored: Redacted.Redacted, about: string): Redacted.Redacted | null
  /** The sealed secret. Plain text is returned unchanged: it was stored before secrets were encrypted. */
  unseal(stored: Redacted.Redacted, about: string): Redacted.Redacted
  /** Whether the key that encrypts now opens it. */
  isCurrent(stored: Redacted.Redacted, about: string): boolean
  /** There is no other key: nothing can be sealed with one. */
  readonly isAlone: boolean
}

const opened = (key: Buffer, text: string, about: string): Redacted.Redacted | null => {
  if (!text.startsWith(VERSION)) return null
  const sealed = Buffer.from(text.slice(VERSION.length), "base64")
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return null
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(about)).setAuthTag(sealed.subarray(-TAG_BYTES))
  const secret = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES))
  try {
    return Redacted.make(Buffer.concat([secret, decipher.final()]).toString("utf8"))
  } catch {
    return null
  }
}

type Keys = readonly [first: Buffer, ...others: ReadonlyArray<Buffer>]

const keyOf = (keys: Keys): Key => {
  const [first] = keys
  const open = (stored: Redacted.Redacted, about: string) => {
    for (const key of keys) {
      const secret = opened(key, Redacted.value(stored), about)
      if (secret !== null) return secret
    }
    return null
  }
  return {
    seal: (secret, about) => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(CIPHER, first, nonce).setAAD(Buffer.from(about))
      const sealed = Buffer.concat([nonce, cipher.update(Redacted.value(secret), "utf8"), cipher.final(), cipher.getAuthTag()])
      return VERSION + sealed.toString("base64")
    },
    open,
    unseal: (stored, about) => {
      if (!isSealed(stored)) return stored
      const secret = open(stored, about)
      if (secret === null) throw new Error("a stored secret cannot be decrypted")
      return secret
    },
    isCurrent: (stored, about) => opened(first, Redacted.value(stored), about) !== null,
    isAlone: keys.length === 1
  }
}

/** Whether it was encrypted. */
export const isSealed = (stored: Redacted.Redacted): boolean => Redacted.value(stored).startsWith(VERSION)

/** Tells two keys apart and nothing of either. */
const digestOf = (key: Buffer): string => createHmac("sha256", key).update("slipway secrets key").digest("base64url")

const LINES = `${KEY_BYTES} bytes in base64, as openssl rand -base64 ${KEY_BYTES} prints them, or up to ${MAX_KEYS} such lines.`

/** `null`: there is no file. A program that prints nothing has failed. */
const textOf = (from: KeySource, adviceOnFailure: string) => {
  const refuse = refusedIn(from)
  return "file" in from
    ? Effect.tryPromise({
      try: () => readFile(from.file, "utf8").catch(ifAbsent(null)),
      catch: (cause) => refuse(cause instanceof Error ? cause.message : String(cause))
    })
    : Effect.mapError(KeyCommand.run(from.command), (problem) => refuse(`${problem}. ${adviceOnFailure}`))
}

/** The keys; `null`: there is no file. */
const read = Effect.fnUntraced(function*(from: KeySource, option: string) {
  const refuse = refusedIn(from)
  const text = yield* textOf(
    from,
    `Run the command of ${option} as the service's account, and repair it. Nothing is encrypted with another key`
  )
  if (text === null) return null
  const [first, ...others] = text.trim().split(/\s+/u).map((key) => Buffer.from(key, "base64"))
  const keys: Keys | null = first === undefined ? null : [first, ...others]
  if (keys !== null && keys.length <= MAX_KEYS && keys.every(({ length }) => length === KEY_BYTES)) return keys
  return yield* refuse("file" in from ? `it must hold ${LINES}` : `the program must print ${LINES}`)
})

/** How many keys there are, without a look at the database; `null`: there is no file yet. */
export const count = (from: KeySource): Effect.Effect<number | null, SecretsKeyUnusable> =>
  Effect.flatMap(OptionNames, (nameOf) => Effect.map(read(from, nameOf("secretsKeyCommand")), (keys) => keys?.length ?? null))

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
      await link(draft, file).catch(ifCode(["EEXIST"], undefined)).finally(() => rm(draft, { force: true }))
      const folder = await open(path.dirname(file))
      await folder.sync().finally(() => folder.close())
    },
    catch: (cause) => refusedIn({ file })(cause instanceof Error ? cause.message : String(cause))
  })

const DIGEST = "secrets_key"

export class SecretsKey extends Context.Service<SecretsKey, {
  /** Reads the key, or makes it when no secret was ever stored in this database. */
  readonly get: Effect.Effect<Key, SecretsKeyUnusable | StoreUnavailable>
  /** As `get`, but makes none where processes on other machines would need a copy of it. */
  readonly given: Effect.Effect<Key, SecretsKeyUnusable | StoreUnavailable>
  /** The key of what is stored; `null`: nothing ever was. Fails when this process could not read it. Makes nothing. */
  readonly check: Effect.Effect<Key | null, SecretsKeyUnusable | StoreUnavailable>
  /** From now on the database knows the first key as its own: everything is sealed with it. */
  readonly settle: Effect.Effect<void, SecretsKeyUnusable | StoreUnavailable>
}>()("@slipway/postgres/SecretsKey") {
  /** `shared`: processes on other machines may use the same database. */
  static readonly layer = ({ shared = false, ...from }: KeySource & { readonly shared?: boolean }) =>
    Layer.effect(
      SecretsKey,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const nameOf = yield* OptionNames
        let known: Keys | null = null
        let printed: Keys | null = null

        const option = nameOf("command" in from ? "secretsKeyCommand" : "secretsKeyFile")
        const one = yield* Semaphore.make(1)
        // A program runs once in a process: it may cost a request to a KMS.
        const current = one.withPermit(Effect.suspend(() =>
          printed !== null ? Effect.succeed(printed) : Effect.map(read(from, option), (keys) => {
            if ("command" in from) printed = keys
            return keys
          })
        ))
        const digest = Effect.map(
          guard(sql<{ readonly value: string }>`SELECT value FROM secrets WHERE name = ${DIGEST}`),
          ([row]) =>
            row?.value ?? null
        )
        const refuse = refusedIn(from)
        const compare = Effect.fnUntraced(function*(keys: Keys | null, digest: string) {
          if (keys === null) {
            return yield* refuse(
              "it is not there. Put a copy of the file of the process that stored the first secret there, or name one with " +
                `${nameOf("secretsKeyFile")}.`
            )
          }
          if (!keys.some((key) => digestOf(key) === digest)) {
            return yield* refuse(
              "the secrets in this database are encrypted with another key. All processes on one database need the same key: " +
                `give it with ${option}.`
            )
          }
          return keys
        })
        const check = Effect.gen(function*() {
          const wanted = yield* digest
          return wanted === null ? null : keyOf(yield* compare(yield* current, wanted))
        })
        const load = Effect.fnUntraced(function*(makes: boolean) {
          const wanted = yield* digest
          if (wanted !== null) return yield* compare(yield* current, wanted)
          if ((yield* current) === null && "file" in from) {
            if (!makes) {
              return yield* refuse(
                `it is not there. Make it once, for the service's account alone (umask 077; openssl rand -base64 ${KEY_BYTES} > FILE), ` +
                  `give every process on this database a copy, and name that with ${nameOf("secretsKeyFile")}.`
              )
            }
            yield* make(from.file)
          }
          const keys = yield* current
          if (keys !== null) {
            yield* guard(sql`INSERT INTO secrets (name, value) VALUES (${DIGEST}, ${digestOf(keys[0])}) ON CONFLICT DO NOTHING`)
          }
          // Another process may have been first.
          return yield* compare(keys, (yield* digest) ?? "")
        })
        const keys = (makes: boolean) =>
          Effect.suspend(() => known !== null ? Effect.succeed(known) : Effect.map(load(makes), (keys) => known = keys))
        return SecretsKey.of({
          get: Effect.map(keys(true), keyOf),
          given: Effect.map(keys(!shared), keyOf),
          check,
          settle: Effect.flatMap(keys(true), ([first]) => guard(sql`UPDATE secrets SET value = ${digestOf(first)} WHERE name = ${DIGEST}`))
        })
      })
    )

  /** A key that ends with this process, and with it what was sealed. For tests. */
  static readonly layerEphemeral = Layer.sync(SecretsKey, () => {
    const key = Effect.succeed(keyOf([randomBytes(KEY_BYTES)]))
    return SecretsKey.of({ get: key, given: key, check: key, settle: Effect.void })
  })
}
