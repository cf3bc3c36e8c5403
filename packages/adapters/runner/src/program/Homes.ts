/** Channels of kind `home`: what is in the sandbox's home, read and written by the walks of descriptors that hosts of boxes have. */
import { FrameError } from "@slipway/domain/files/rules/Frames"
import * as ReadHome from "@slipway/machine/home/ReadHome"
import * as WriteHome from "@slipway/machine/home/WriteHome"
import { removeTree } from "@slipway/machine/node/RemoveTree"
import { direct } from "@slipway/machine/node/spawner/Spawn"
import { rm } from "node:fs/promises"
import { dirname } from "node:path"
import type { Json } from "../wire/ChannelWire.ts"
import { type Channel, ChannelReset } from "../wire/OpenChannel.ts"
import { isCount } from "../wire/Wire.ts"

export interface Options {
  readonly home: string
  /** `null`: who the runner is. */
  readonly owner: { readonly uid: number; readonly gid: number } | null
}

const codeOf = (error: unknown): string =>
  error instanceof FrameError
    ? "damaged"
    : error instanceof ReadHome.TooLarge
    ? "too_large"
    : error instanceof ReadHome.TooSlow
    ? "too_slow"
    : "failed"

const isPaths = (value: unknown): value is ReadonlyArray<string> => Array.isArray(value) && value.every((path) => typeof path === "string")

const read = async (channel: Channel, home: string, paths: ReadonlyArray<string>, maximumBytes: number) => {
  for await (const bytes of ReadHome.read(home, paths, { maximumBytes })) await channel.write(bytes)
  channel.end()
}

/** Without a program where that does: what was moved out of a home may be deeper than any path. */
const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true }).catch(() => removeTree(direct, path))

const write = async (channel: Channel, { home, owner }: Options) => {
  const writing = WriteHome.make({ home, beside: dirname(home), owner, remove })
  try {
    await writing.open()
    for (let bytes = await channel.read(); bytes !== null; bytes = await channel.read()) await writing.take(bytes)
    await writing.finish()
  } finally {
    await writing.close()
  }
  channel.note({ isWritten: true })
  channel.end()
}

/** Answers the header `{ read, maximumBytes }`, or `{ write: true }` once all bytes came. Homes are written one after the other. */
export const accept = (options: Options | undefined) => {
  let turn: Promise<unknown> = Promise.resolve()
  return (channel: Channel, header: Json): void => {
    const { maximumBytes, read: paths, write: isWriting } = header
    const refused = () => Promise.reject(new Error("what was asked for is no home"))
    const answer = (): Promise<void> => {
      if (options === undefined) return refused()
      if (isPaths(paths) && isCount(maximumBytes)) return read(channel, options.home, paths, maximumBytes)
      if (isWriting !== true) return refused()
      const written = turn.then(() => write(channel, options))
      turn = written.catch(() => {})
      return written
    }
    void answer().catch((error: unknown) => {
      // A worker that gave up resets.
      if (!(error instanceof ChannelReset)) {
        channel.reset({ code: codeOf(error), message: error instanceof Error ? error.message : "" })
      }
    })
  }
}
