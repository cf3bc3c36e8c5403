/** The types of settings: how their text is parsed, and how it is described to people. */
import * as S3Address from "@slipway/machine/blobs/s3/S3Address"
import * as Duration from "effect/Duration"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import path from "node:path"

export interface Type<A> {
  /** Completes "it must be …". */
  readonly expected: string
  /** The unit of a number, written after it. */
  readonly unit?: string
  /** The problem with a text, without any secret; `null`: `expected` says it all. */
  readonly problemOf?: (text: string) => string | null
  readonly schema: Schema.Codec<A, string>
}

const MiB = 2 ** 20

const digits = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\d{1,9}$/u)).pipe(
    Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum, maximum })),
      SchemaTransformation.transform({ decode: Number, encode: String })
    )
  )

export const integer = (minimum: number, maximum: number, unit?: string): Type<number> => ({
  expected: `a number ${unit === undefined ? "" : `of ${unit} `}from ${minimum} to ${maximum}`,
  ...(unit === undefined ? {} : { unit }),
  schema: digits(minimum, maximum)
})

/** Whole numbers. In memory: a `Duration`. */
const duration =
  (unit: "seconds" | "minutes" | "hours" | "days", millis: number) => (minimum: number, maximum: number): Type<Duration.Duration> => ({
    ...integer(minimum, maximum, unit),
    schema: digits(minimum, maximum).pipe(Schema.decodeTo(
      Schema.Duration,
      SchemaTransformation.transform({
        decode: (count) => Duration.millis(count * millis),
        encode: (time) => Duration.toMillis(time) / millis
      })
    ))
  })
export const seconds = duration("seconds", 1000)
export const minutes = duration("minutes", 60_000)
export const hours = duration("hours", 3_600_000)
export const days = duration("days", 86_400_000)

/** In memory: bytes. */
export const mebibytes = (minimum: number, maximum: number): Type<number> => ({
  ...integer(minimum, maximum, "MiB"),
  schema: digits(minimum, maximum).pipe(Schema.decodeTo(
    Schema.Int,
    SchemaTransformation.transform({ decode: (count) => count * MiB, encode: (bytes) => bytes / MiB })
  ))
})

export const oneOf = <const Words extends ReadonlyArray<string>>(words: Words): Type<Words[number]> => ({
  expected: `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`,
  schema: Schema.Literals(words)
})

export const flag: Type<boolean> = {
  ...oneOf(["true", "false"]),
  schema: Schema.Literals(["true", "false"]).pipe(
    Schema.decodeTo(
      Schema.Boolean,
      SchemaTransformation.transform({ decode: (text) => text === "true", encode: (is) => is ? "true" as const : "false" as const })
    )
  )
}

export const text = (expected: string): Type<string> => ({ expected, schema: Schema.NonEmptyString })

export const pattern = (expected: string, pattern: RegExp): Type<string> => ({
  expected,
  schema: Schema.String.check(Schema.isPattern(pattern))
})

/** Any text that `parses` accepts. */
export const parsed = (expected: string, parses: (value: string) => boolean): Type<string> => ({
  expected,
  schema: Schema.String.check(Schema.makeFilter(parses))
})

interface CommandLine {
  readonly program: string
  readonly args: ReadonlyArray<string>
}

/** A program by its path or its name in PATH, and its arguments. There is no shell, so what only a shell understands is refused. */
export const commandLine: Type<CommandLine> = {
  expected: "the absolute path of a program, or its name in PATH, and its arguments between spaces, without quotes, $, ; and other " +
    "syntax of a shell (put that into a script)",
  schema: Schema.String.check(Schema.isPattern(/^(?:\/|(?!\S*\/))[^\s"'`\\$|;<>\0]+(?: +[^\s"'`\\$|;<>\0]+)*$/u)).pipe(
    Schema.decodeTo(
      Schema.Struct({ program: Schema.String, args: Schema.Array(Schema.String) }),
      SchemaTransformation.transform({
        decode: (text): CommandLine => {
          const [program = "", ...args] = text.split(/ +/u)
          return { program, args }
        },
        encode: ({ args, program }: CommandLine) => [program, ...args].join(" ")
      })
    )
  )
}

/** A path, absolute in memory. Relative paths start from the working directory. */
const at = (expected: string): Type<string> => ({
  expected,
  schema: Schema.NonEmptyString.pipe(
    Schema.decodeTo(
      Schema.String,
      SchemaTransformation.transform({ decode: (given) => path.resolve(given), encode: (absolute) => absolute })
    )
  )
})
export const file = at("a file")
export const folder = at("a folder")

/** Empty items and spaces around items are ignored. */
export const list = (expected: string, isItem: (item: string) => boolean): Type<ReadonlyArray<string>> => {
  const items = (text: string): ReadonlyArray<string> => text.split(",").map((item) => item.trim()).filter((item) => item !== "")
  return {
    expected,
    schema: Schema.String.check(Schema.makeFilter((text) => items(text).every(isItem))).pipe(
      Schema.decodeTo(
        Schema.Array(Schema.String),
        SchemaTransformation.transform({ decode: items, encode: (given: ReadonlyArray<string>) => given.join(",") })
      )
    )
  }
}

/** Absolute, because the service may start in any folder. Without a colon, which would split a PATH. */
export const folders = list(
  "absolute paths of folders between commas, without colons",
  (item) => path.isAbsolute(item) && !/[:\0]/u.test(item)
)

export const images = list(
  "names of images between commas, such as python:3.13-bookworm",
  (item) => /^[a-z0-9][\w./:-]*(?:@sha256:[0-9a-f]{64})?$/u.test(item)
)

interface CheckpointPlaces {
  readonly folder: string | null
  /** The place of new checkpoints. */
  readonly writes: "database" | "blobs" | "folder"
}

/** Absolute paths only, because processes of one database start in different folders. */
export const checkpointPlaces: Type<CheckpointPlaces> = {
  expected: "database or blobs, file:/path, or database,file:/path or blobs,file:/path",
  schema: Schema.String.check(Schema.isPattern(/^(?:database|blobs|(?:database,|blobs,)?file:\/[^\0,]+)$/u)).pipe(Schema.decodeTo(
    Schema.Struct({ folder: Schema.NullOr(Schema.String), writes: Schema.Literals(["database", "blobs", "folder"]) }),
    SchemaTransformation.transform({
      decode: (text): CheckpointPlaces => {
        const [first = ""] = text.split(",")
        const [, folder] = /file:(.*)$/u.exec(text) ?? []
        return {
          folder: folder === undefined ? null : path.resolve(folder),
          writes: first === "database" || first === "blobs" ? first : "folder"
        }
      },
      encode: ({ folder, writes }) => [...(writes === "folder" ? [] : [writes]), ...(folder === null ? [] : [`file:${folder}`])].join(",")
    })
  ))
}

/** Where blobs are: the database, a folder, or an object store, whose address is a text without {@link S3Address.problemOf}. */
type BlobPlace =
  | { readonly kind: "database" }
  | { readonly kind: "folder"; readonly folder: string }
  | { readonly kind: "s3"; readonly address: string }

const BLOB_FOLDER = /^folder:\/[^\0]+$/u

/** Absolute paths only, because processes of one database start in different folders. An address with credentials is refused later. */
export const blobPlace: Type<BlobPlace> = {
  expected: `database, folder:/path or ${S3Address.EXPECTED}`,
  problemOf: (text) => text.startsWith("s3:") ? S3Address.problemOf(text) : null,
  schema: Schema.String.check(
    Schema.makeFilter((text) =>
      text === "database" || BLOB_FOLDER.test(text) || S3Address.hasCredentials(text) || S3Address.problemOf(text) === null
    )
  ).pipe(Schema.decodeTo(
    Schema.Union([
      Schema.Struct({ kind: Schema.Literal("database") }),
      Schema.Struct({ kind: Schema.Literal("folder"), folder: Schema.String }),
      Schema.Struct({ kind: Schema.Literal("s3"), address: Schema.String })
    ]),
    SchemaTransformation.transform({
      decode: (text): BlobPlace =>
        text === "database"
          ? { kind: "database" }
          : text.startsWith("folder:")
          ? { kind: "folder", folder: path.resolve(text.slice("folder:".length)) }
          : { kind: "s3", address: text },
      encode: (place) => place.kind === "s3" ? place.address : place.kind === "folder" ? `folder:${place.folder}` : place.kind
    })
  ))
}

/** For secrets. */
export const redacted = ({ schema, ...type }: Type<string>): Type<Redacted.Redacted> => ({
  ...type,
  schema: schema.pipe(
    Schema.decodeTo(
      Schema.Redacted(Schema.String),
      SchemaTransformation.transform({ decode: (it) => Redacted.make(it), encode: Redacted.value })
    )
  )
})

const isWebAddress = (value: string) => {
  if (!URL.canParse(value)) return false
  const { hash, protocol, search, username } = new URL(value)
  return /^https?:$/u.test(protocol) && hash === "" && search === "" && username === ""
}

export const webAddress = parsed("an http or https address without query or user", isWebAddress)

/** The path is the base path behind a proxy. Its segments have only plain characters, which cookies and pages need not escape. */
export const publicAddress = parsed(
  webAddress.expected,
  (value) => isWebAddress(value) && /^(?:\/[\w.~-]+)*\/*$/u.test(new URL(value).pathname)
)
