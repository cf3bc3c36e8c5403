import { assert, describe, it } from "@effect/vitest"
import { artifactType, isArtifactName, keptArtifacts, MAX_ARTIFACT_BYTES, MAX_ARTIFACTS } from "@slipway/domain/files/rules/Artifact"
import * as DateTime from "effect/DateTime"

const bytes = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const utf8 = (text: string) => new TextEncoder().encode(text)

describe("the type of an artifact", () => {
  it.each([
    ["a.txt", bytes("\x89PNG\r\n\x1a\n"), "image/png"],
    ["a", bytes("\xff\xd8\xff\xe0"), "image/jpeg"],
    ["a", bytes("GIF89a"), "image/gif"],
    ["a", bytes("RIFF\x00\x00\x00\x00WEBP"), "image/webp"],
    ["a", bytes("\x00\x00\x00\x1cftypavif"), "image/avif"],
    ["a.html", bytes("\x00\x00\x00\x1cftypisom"), "video/mp4"],
    ["a", bytes("\x00\x00\x00\x1cftypmp42"), "video/mp4"],
    ["a", bytes("\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm"), "video/webm"],
    ["notes.md", utf8("# Grüße\n\ttext\r\n"), "text/plain"],
    ["empty", new Uint8Array(0), "text/plain"],
    // The head ends within a character.
    ["cut.txt", utf8("ä".repeat(2100)).subarray(1, 4097).fill(97, 0, 1), "text/plain"],
    ["script.sh", utf8("#!/bin/sh\n\u001b[31m"), "text/plain"]
  ])("%s is shown by its first bytes alone (%#)", (name, head, type) => {
    assert.strictEqual(artifactType(name, head), type)
  })

  it.each([
    ["a.png", utf8("<svg onload=alert(1)>")],
    ["a.txt", utf8("\n \t<!doctype html><script>")],
    ["a.txt", utf8("\ufeff<html>")],
    ["a.html", utf8("plain text")],
    ["a.SVG", utf8("plain text")],
    ["a.js", utf8("alert(1)")],
    ["a.pdf", utf8("%PDF-1.7")],
    ["a.txt", bytes("a\x00b")],
    ["a.txt", bytes("caf\xe9")],
    // A Matroska file that does not say that it is WebM, and an unknown brand.
    ["a.mkv", bytes("\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska")],
    ["a.heic", bytes("\x00\x00\x00\x1cftypheic")]
  ])("%s is a download if its bytes or its name could be more than text (%#)", (name, head) => {
    assert.strictEqual(artifactType(name, head), "application/octet-stream")
  })
})

describe("the name of an artifact", () => {
  it.each(["a", "a/b.png", "ä \u{1F680}.txt", "..a", "x".repeat(255), "'\"`$(a);<b>&?#%2F"])("may be %j", (name) => {
    assert.isTrue(isArtifactName(name))
  })
  it.each(["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb", "a\u0000", "\u202ea", "\ud800", "\ufffd", "x".repeat(256)])(
    "is never %j",
    (name) => assert.isFalse(isArtifactName(name))
  )
})

describe("the artifacts after a collection", () => {
  const at = (hour: number) => DateTime.makeUnsafe(`2026-11-30T${String(hour).padStart(2, "0")}:00:00Z`)
  const one = (name: string, hour: number, size = 1) => ({ name, size, createdAt: at(hour) })
  const namesOf = (kept: ReadonlyArray<{ readonly name: string }>) => kept.map(({ name }) => name)

  it("are the files that were found and the earlier ones without a file, by name", () => {
    const found = [one("b", 3), one("a", 3)]
    assert.deepStrictEqual(keptArtifacts(found, [one("c", 1), one("a", 1)]), [one("a", 3), one("b", 3), one("c", 1)])
  })

  it("lose the oldest earlier ones when there are too many", () => {
    const earlier = Array.from({ length: MAX_ARTIFACTS }, (_, i) => one(`e${i}`, i === 7 ? 1 : 2))
    const kept = namesOf(keptArtifacts([one("new", 3)], earlier))
    assert.lengthOf(kept, MAX_ARTIFACTS)
    assert.notInclude(kept, "e7")
    assert.include(kept, "new")
  })

  it("lose the oldest earlier ones when they have too many bytes", () => {
    const earlier = [one("old", 1, 1), one("young", 2, MAX_ARTIFACT_BYTES / 2)]
    assert.deepStrictEqual(namesOf(keptArtifacts([one("new", 3, MAX_ARTIFACT_BYTES / 2)], earlier)), ["new", "young"])
    assert.deepStrictEqual(namesOf(keptArtifacts([one("new", 3, MAX_ARTIFACT_BYTES)], earlier)), ["new"])
  })
})
