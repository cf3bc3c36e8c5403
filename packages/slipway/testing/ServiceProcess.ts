/** `slipway serve` as a process: it is ready when it says so, and leaves nothing behind. */
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { tmpdir } from "node:os"
import path from "node:path"

export const command = path.resolve(import.meta.dirname, "../bin/slipway.js")

export type Settings = Readonly<Record<string, string>>

/** Settings of a service for a test, and of the developer's own environment the PATH alone. */
export const environment = (dataDir: string, settings: Settings) => ({
  PATH: process.env["PATH"],
  TMPDIR: tmpdir(),
  // Where services of this user register themselves.
  XDG_STATE_HOME: path.join(dataDir, "state"),
  SLIPWAY_DATA_DIR: dataDir,
  SLIPWAY_PORT: "0",
  SLIPWAY_RATE_LIMIT_PER_MINUTE: "100000",
  ...settings
})

export interface Options {
  /** The data folder, which is its working directory too. */
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** That of another version. */
  readonly program?: string
  readonly node?: string
  /** A command that runs the service as its last arguments. */
  readonly through?: ReadonlyArray<string>
  readonly seconds?: number
}

export interface ServiceProcess extends SpawnedProgram.SpawnedProgram {
  /** Where it answers requests; empty for a worker. */
  readonly url: string
  /** The API key that its first start prints. */
  readonly key: string | undefined
}

/** Ready: a worker, or a server that has said all about itself. */
const readyAt = (output: string): string | null => {
  if (/^Slipway +worker/mu.test(output)) return ""
  const url = /^Slipway +(https?:\S+)/mu.exec(output)?.[1]
  return url !== undefined && /^isolation/mu.test(output) && output.endsWith("\n") ? url : null
}

/** Starts the service without waiting for it. */
export const spawn = (
  { dataDir, env, node = process.execPath, program = command, through = [] }: Options
): SpawnedProgram.SpawnedProgram => {
  const [file = "", ...args] = [...through, node, program, "serve"]
  return SpawnedProgram.start(file, args, { cwd: dataDir, env })
}

/** Waits until it is ready. Rejects with its output when it ends before, or takes too long, and leaves nothing of it. */
export const ready = async (started: SpawnedProgram.SpawnedProgram, seconds?: number): Promise<ServiceProcess> => {
  try {
    const url = await started.says(readyAt, seconds)
    return { ...started, url, key: /sbx_live_\w+/u.exec(started.output())?.[0] }
  } catch (error) {
    await started.kill()
    throw error
  }
}

export const start = (options: Options): Promise<ServiceProcess> => ready(spawn(options), options.seconds)
