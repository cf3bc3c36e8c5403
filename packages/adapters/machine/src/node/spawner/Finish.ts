/** Programs that say little and end soon. */
import type { Readable } from "node:stream"
import type { Ended, Spawn } from "./Spawn.ts"

export interface Finished extends Ended {
  readonly stdout: string
  readonly stderr: string
}

/** The most bytes kept of each stream. The rest is read and discarded. */
const MAXIMUM_BYTES = 2 ** 20

const collect = (stream: Readable | null): () => string => {
  const chunks: Array<Buffer> = []
  let size = 0
  stream?.on("data", (chunk: Buffer) => {
    if (size < MAXIMUM_BYTES) chunks.push(chunk)
    size += chunk.length
  })
  return () => Buffer.concat(chunks).toString("utf8", 0, MAXIMUM_BYTES)
}

/** Runs it to its end, without input. Rejects where it cannot be started. */
export const finish = async (spawn: Spawn, program: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) => {
  const child = await spawn(program, args, { cwd: "/", env })
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)]
  child.stdin?.end()
  const ended = await child.closed
  return { ...ended, stdout: stdout(), stderr: stderr() } satisfies Finished
}
