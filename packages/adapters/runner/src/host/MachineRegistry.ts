/**
 * The machines of this worker's sandboxes, in a file for each, which outlives the process. A reader of the file can act as the worker to
 * the machine.
 *
 *     <directory>/<sandbox id>.json
 */
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as DurableFile from "@slipway/machine/node/DurableFile"
import { Schema } from "effect"
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as Identity from "../wire/Identity.ts"

const IdentitySchema = Schema.Struct({ privateKey: Schema.String, certificate: Schema.String, peer: Schema.String })

const Machine = Schema.fromJsonString(Schema.Struct({
  worker: IdentitySchema,
  /** Kept as long as the machine, because its maker may have to start its runner again. */
  runner: IdentitySchema,
  /** `null`: it was not made yet, as far as is known. */
  address: Schema.NullOr(Schema.Union([
    Schema.Struct({ path: Schema.String }),
    Schema.Struct({ host: Schema.String, port: Schema.Int })
  ])),
  /** The highest of all leases that it was dialled under. */
  fence: Schema.Int
}))

export type Machine = typeof Machine.Type

const decode = Schema.decodeUnknownSync(Machine)
const encode = Schema.encodeSync(Machine)
const isSandboxId = Schema.is(SandboxId)

const SUFFIX = ".json"

/** All methods throw errors of the disk, and for an invalid file. */
export const make = (directory: string) => {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const fileOf = (sandboxId: SandboxId) => join(directory, `${sandboxId}${SUFFIX}`)
  return {
    get: (sandboxId: SandboxId): Machine | undefined => {
      try {
        return decode(readFileSync(fileOf(sandboxId), "utf8"))
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined
        // The parser's own words quote what it read.
        throw codeOf(error) === undefined ? new Error(`${fileOf(sandboxId)} is damaged`) : error
      }
    },
    /** On the disk when it returns, whole or as it was. */
    set: (sandboxId: SandboxId, machine: Machine): void => DurableFile.replace(fileOf(sandboxId), encode(machine)),
    forget: (sandboxId: SandboxId): void => rmSync(fileOf(sandboxId), { force: true }),
    list: (): ReadonlyArray<SandboxId> =>
      readdirSync(directory).filter((name) => name.endsWith(SUFFIX)).map((name) => name.slice(0, -SUFFIX.length)).filter(isSandboxId)
  }
}

export type MachineRegistry = ReturnType<typeof make>

/** A new entry, for a machine that is to be made. */
export const fresh = (fence: number): Machine => ({ ...Identity.mint(), address: null, fence })
