/**
 * The bytes of one checkpoint: a header, the files of the agent's conversation, the trees. They are frames of at most 64 KiB: a tag
 * (1 byte), the length of the content (4, big endian), the content, and the CRC-32 of everything so far (4). A valid frame proves
 * that nothing before its end was cut, changed, or left out.
 */
import * as Frames from "@slipway/domain/files/rules/Frames"
import { Effect, Schema, Stream, type Scope } from "effect"

/** The checkpoint is truncated, changed, not the requested one, or of another version of the service. Retrying does not help. */
export class CheckpointFormatError extends Schema.TaggedError<CheckpointFormatError>()("CheckpointFormatError", {
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** The identity of a checkpoint. */
const Which = Schema.Struct({
  sandboxId: Schema.String,
  grantId: Schema.String,
  checkpoint: Schema.Int
})

/** The requested checkpoint. `grantId`: `null` when the caller does not know it; then it is not compared. */
export interface Asked extends Omit<typeof Which.Type, "grantId"> {
  readonly grantId: string | null
}

/** Read before anything is restored. Unknown fields are ignored, so old versions read new checkpoints. */
const Header = Schema.Struct({
  format: Schema.Literal(1),
  /** Missing in checkpoints of earlier versions. */
  of: Schema.optionalKey(Which),
  /** The agent runtime of the conversation. */
  runtime: Schema.String,
  /** The agent's own session, as `SavedSession` writes it; `null`: no session to resume. */
  agentSession: Schema.NullOr(Schema.String),
  /** Whether files of the conversation follow. */
  hasHome: Schema.Boolean
})
type Header = typeof Header.Type

const headerIn = Frames.jsonIn(Header, "It is of another version of the service.")

const TAG = { header: 1, home: 2, trees: 3, end: 4 } as const

/** The most bytes of a frame's content. */
const MAX_LENGTH = 65_536
const LENGTH_BYTES = 4
const CRC_BYTES = 4

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1
  return crc
})

/** Continues the CRC-32 (ISO 3309) `crc` with `bytes`. */
const crc32 = (crc: number, bytes: Uint8Array): number => {
  let rest = ~crc
  for (const byte of bytes) rest = (table[(rest ^ byte) & 0xff] ?? 0) ^ (rest >>> 8)
  return ~rest >>> 0
}

interface Content<E, R> {
  /** `null`: as earlier versions wrote it. */
  readonly of: typeof Which.Type | null
  readonly runtime: string
  readonly agentSession: string | null
  /** `null`: the conversation could not be read. */
  readonly home: Stream.Stream<Uint8Array, E, R> | null
  readonly trees: Stream.Stream<Uint8Array, E, R>
}

/** The bytes of a checkpoint with this `content`. Its streams are read once, one after the other. */
export const write = <E, R>({ agentSession, home, of, runtime, trees }: Content<E, R>): Stream.Stream<Uint8Array, E, R> =>
  Stream.suspend(() => {
    let crc = 0
    const framed = (tag: number, content: Uint8Array) => {
      const before = Uint8Array.of(tag, ...Frames.numberOf(content.length, LENGTH_BYTES))
      crc = crc32(crc32(crc, before), content)
      return Frames.joined([before, content, Frames.numberOf(crc, CRC_BYTES)])
    }
    const section = (tag: number, content: Stream.Stream<Uint8Array, E, R>) =>
      Stream.map(Stream.flatMap(content, (bytes) => Stream.fromIterable(Frames.split(bytes, MAX_LENGTH))), (bytes) => framed(tag, bytes))
    const header: Header = { format: 1, ...(of === null ? {} : { of }), runtime, agentSession, hasHome: home !== null }
    return Stream.sync(() => framed(TAG.header, new TextEncoder().encode(JSON.stringify(header)))).pipe(
      Stream.concat(section(TAG.home, home ?? Stream.empty)),
      Stream.concat(section(TAG.trees, trees)),
      Stream.concat(Stream.sync(() => framed(TAG.end, new Uint8Array())))
    )
  })

interface Frame {
  readonly tag: number
  readonly content: Uint8Array
}

const changed = (detail: string) => new Frames.FrameError({ reason: "changed", detail })

function* frames(): Frames.Format<Frame> {
  for (let crc = 0, tag = 0; tag !== TAG.end;) {
    const before = yield* Frames.bytes(1 + LENGTH_BYTES)
    const length = Frames.numberIn(before.subarray(1))
    if (length > MAX_LENGTH) throw changed("It is changed.")
    const content = yield* Frames.bytes(length)
    crc = crc32(crc32(crc, before), content)
    if (Frames.numberIn(yield* Frames.bytes(CRC_BYTES)) !== crc) throw changed("It is changed.")
    tag = before[0] ?? 0
    if (tag === TAG.end && length > 0) throw changed("It has more than it should.")
    yield* Frames.give({ tag, content })
  }
}

/** A checkpoint that is being read: `home` before `trees`, each at most once. A section succeeds only if it is complete. */
interface Opened<E> {
  readonly header: Header
  readonly home: Stream.Stream<Uint8Array, CheckpointFormatError | E>
  /** Succeeds only if the whole checkpoint is complete. */
  readonly trees: Stream.Stream<Uint8Array, CheckpointFormatError | E>
}

const damaged = (detail: string) => new CheckpointFormatError({ detail })

/** Reads the whole checkpoint without keeping it. Fails unless it is complete and the requested one. */
export const check = <E, R>(
  stream: Stream.Stream<Uint8Array, E, R>,
  asked: Asked
): Effect.Effect<void, CheckpointFormatError | E, R | Scope.Scope> =>
  Effect.flatMap(read(stream, asked), ({ trees }) => Stream.runDrain(trees))

const isAsked = ({ of }: Header, { checkpoint, grantId, sandboxId }: Asked): boolean =>
  of === undefined || of.sandboxId === sandboxId && of.checkpoint === checkpoint && (grantId === null || of.grantId === grantId)

/** Reads the header; the sections are read when their streams run. Fails if it is another checkpoint than `asked`. */
export const read = <E, R>(
  stream: Stream.Stream<Uint8Array, E, R>,
  asked: Asked
): Effect.Effect<Opened<E>, CheckpointFormatError | E, R | Scope.Scope> =>
  Effect.gen(function*() {
    const frame = yield* Frames.reader(stream, frames(), { onError: ({ detail }) => damaged(detail) })
    const next = Effect.flatMap(frame, (found) => found === undefined ? damaged("It is cut.") : Effect.succeed(found))
    let ahead: Frame | null = null
    let reached: number = TAG.home
    const section = (tag: number) =>
      Stream.unfold(undefined, () =>
        Effect.gen(function*() {
          ahead ??= yield* next
          // Skips a section that the caller did not read.
          while (ahead.tag < tag && ahead.tag >= reached) ahead = yield* next
          reached = tag
          if (ahead.tag === tag) {
            const { content } = ahead
            ahead = null
            return [content, undefined] as const
          }
          if (ahead.tag < tag || ahead.tag > TAG.end) return yield* damaged("It is out of order.")
          // Fails if anything follows the end.
          if (ahead.tag === TAG.end) yield* frame
          return undefined
        }))

    const first = yield* next
    const header = yield* Effect.try({
      try: () => headerIn(first.content),
      catch: () => damaged("It is of another version of the service.")
    })
    if (first.tag !== TAG.header) return yield* damaged("It is of another version of the service.")
    // The error does not name the other sandbox.
    if (!isAsked(header, asked)) return yield* damaged("It is another checkpoint than was asked for.")
    return { header, home: section(TAG.home), trees: section(TAG.trees) }
  })
