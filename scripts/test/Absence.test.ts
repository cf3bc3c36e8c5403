import { assert, it } from "@effect/vitest"
import { found } from "../absence.mjs"

const FS = `import { readFile, readdir } from "node:fs/promises"\n`
const places = (code: string): number => found(code).length

it("what takes any failure of a read for an answer is found", () => {
  for (
    const code of [
      "await readdir(folder).catch(() => [])",
      "await readFile(file).then((text) => text, () => undefined)",
      "await readFile(file).catch((_error) => null)",
      "const read = () => { try { return readFile(file) } catch { return false } }",
      "const read = () => { try { return readFile(file) } catch (error) { log() } }",
      "if (!existsSync(folder)) rm(folder)",
      "Effect.option(read)",
      "read.pipe(Effect.orElseSucceed(() => []))"
    ]
  ) assert.strictEqual(places(FS + code), 1, code)
})

it("what looks at the error, or passes it on, is not found", () => {
  for (
    const code of [
      "await readdir(folder).catch(ifAbsent([]))",
      "await readdir(folder).catch((error) => codeOf(error) === 'ENOENT' ? [] : never())",
      "const read = () => { try { return readFile(file) } catch (error) { return ifAbsent(false)(error) } }",
      "const read = () => { try { return readFile(file) } catch { throw new Error('it cannot be read') } }",
      "Effect.catch(read, () => Effect.succeed([]))"
    ]
  ) assert.strictEqual(places(FS + code), 0, code)
  // It reads no files.
  assert.strictEqual(places("const parse = () => { try { return JSON.parse(text) } catch { return undefined } }"), 0)
})
