/** Names of the programs in boxes. What a setup installed in one box works in every box of the same name. */
import { Effect } from "effect"
import { readFile } from "node:fs/promises"
import { release } from "node:os"

const FIELDS = ["ID", "VERSION_ID", "BUILD_ID"]

/** Reads a field of `os-release`(5). */
const fieldsOf = (text: string): ReadonlyArray<string> =>
  FIELDS.map((name) => new RegExp(`^${name}=["']?([^"'\\n]*)["']?$`, "mu").exec(text)?.[1] ?? "")

/** Boxes see the Node that the service runs on: addons that are built for another one do not load. */
export const node = `node-${process.versions.modules}`

/** The name for boxes that see the machine's own programs. */
export const ofMachine = (isolation: "bubblewrap" | "gvisor" | "none"): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() =>
      readFile("/etc/os-release", "utf8").catch(() => readFile("/usr/lib/os-release", "utf8")).catch(() =>
        `ID=${process.platform}-${release()}`
      )
    ),
    (text) => JSON.stringify([isolation, ...fieldsOf(text), process.arch, node])
  )

/** The name for containers, by the content of the image and not by its tag. */
export const ofContainer = (image: { readonly id: string; readonly architecture: string }): string =>
  JSON.stringify(["docker", image.id, image.architecture, node])
