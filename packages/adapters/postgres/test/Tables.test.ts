/** A table that only grows is a decision: each table is in the documentation, with what its rows are and when they go. */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { tables } from "../src/schema/Schema.ts"

it("docs/capacity.md says of every table when its rows go", () => {
  const page = readFileSync(new URL("../../../../docs/capacity.md", import.meta.url), "utf8")
  const [, section = ""] = page.split("## Size of the database")
  const told = section.split("\n").flatMap((line) => {
    const [, names = "", what = "", goes = ""] = line.split(" | ").length === 3 ? ["", ...line.replace(/^\| /u, "").split(" | ")] : []
    return what === "" || goes === "" ? [] : Array.from(names.matchAll(/`(\w+)`/gu), ([, name = ""]) => name)
  })
  assert.deepStrictEqual(told.toSorted(), tables.toSorted())
})
