import { assert, describe, it } from "@effect/vitest"
import * as ImageReference from "../src/ImageReference.ts"

const DIGEST = `sha256:${"a".repeat(64)}`

const found = (asked: string, offered: string) => ImageReference.find(asked, [{ name: "debian:12" }, { name: offered }])?.name

describe("images that repositories ask for", () => {
  it("are those that the operator lists, however they are written", () => {
    for (
      const [asked, offered] of [
        ["python:3.13", "python:3.13"],
        ["docker.io/library/python:3.13", "python:3.13"],
        ["python", "python:latest"],
        ["acme/tools:1", "docker.io/acme/tools:1"],
        ["ghcr.io/acme/tools:1", "ghcr.io/acme/tools:1"],
        ["localhost:5000/tools", "localhost:5000/tools:latest"],
        ["python:3.13", `python:3.13@${DIGEST}`],
        [`python@${DIGEST}`, `python:3.13@${DIGEST}`],
        [`python:other@${DIGEST}`, `python@${DIGEST}`]
      ] as const
    ) assert.strictEqual(found(asked, offered), offered, asked)
  })

  it("are no others: of another registry, folder, tag or digest", () => {
    for (
      const [asked, offered] of [
        ["python:3.12", "python:3.13"],
        ["python", "python:3.13"],
        ["evil/python:3.13", "python:3.13"],
        ["evil.example.com/library/python:3.13", "python:3.13"],
        ["localhost/python:3.13", "python:3.13"],
        ["python:3.13", `python@${DIGEST}`],
        [`python:3.13@${DIGEST}`, "python:3.13"],
        [`python@sha256:${"b".repeat(64)}`, `python@${DIGEST}`],
        ["", "python:3.13"],
        ["python:3.13 --privileged", "python:3.13"]
      ] as const
    ) assert.isUndefined(found(asked, offered), asked)
  })
})
