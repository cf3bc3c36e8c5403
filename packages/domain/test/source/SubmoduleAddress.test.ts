import { absoluteAddress, repositoryAt } from "@slipway/domain/source/schema/SubmoduleAddress"
import { assert, describe, it } from "vitest"

const APP = "https://github.com/acme/app.git"

describe("the address of a submodule", () => {
  it("is resolved as git does, against the repository that names it", () => {
    const resolved: ReadonlyArray<readonly [repository: string, address: string, absolute: string]> = [
      [APP, "../lib.git", "https://github.com/acme/lib.git"],
      [APP, "../../other/lib", "https://github.com/other/lib"],
      [APP, "./lib.git", "https://github.com/acme/app.git/lib.git"],
      ["https://git.example:8443/team/acme/app/", "../lib.git", "https://git.example:8443/team/acme/lib.git"],
      ["/srv/git/app.git", "../lib.git", "/srv/git/lib.git"],
      ["/srv/git/app.git", "../../other//lib", "/srv/other/lib"],
      [APP, "https://github.com/acme/lib", "https://github.com/acme/lib"],
      [APP, "git@github.com:acme/lib.git", "git@github.com:acme/lib.git"]
    ]
    for (const [repository, address, absolute] of resolved) assert.strictEqual(absoluteAddress(repository, address), absolute, address)
  })

  it("leads nowhere out of the host of its repository, and is a text without spaces", () => {
    const refused: ReadonlyArray<readonly [repository: string, address: string]> = [
      [APP, "../../../lib.git"],
      ["/app.git", "../../lib"],
      [APP, "../a/../../b"],
      [APP, "../"],
      [APP, "./."],
      [APP, ""],
      [APP, "../lib\n.git"],
      [APP, "../lib .git"],
      [APP, "..\\lib"],
      [APP, `../${"x".repeat(2_000)}`],
      ["git@github.com:acme/app.git", "../lib.git"]
    ]
    for (const [repository, address] of refused) assert.isNull(absoluteAddress(repository, address), address)
  })

  it("names a repository of the host in each form that git has", () => {
    for (
      const address of ["https://github.com/acme/lib", "https://github.com/acme/lib.git", "https://GitHub.com/acme/lib.git/",
        "http://github.com/acme/lib", "https://someone@github.com/acme/lib", "ssh://git@github.com/acme/lib.git",
        "ssh://git@github.com:22/acme/lib.git", "git://github.com/acme/lib.git", "git@github.com:acme/lib.git", "github.com:acme/lib"]
    ) {
      assert.strictEqual(repositoryAt(address, "github.com"), "acme/lib", address)
    }
    assert.strictEqual(repositoryAt("http://127.0.0.1:8080/acme/lib.git", "127.0.0.1:8080"), "acme/lib")
  })

  it("names none in any other", () => {
    for (
      const address of ["https://github.com.evil.example/acme/lib", "https://evil.example/github.com/acme/lib",
        "https://github.com@evil/a/b", "https://github.com:444/acme/lib", "https://u:secret@github.com/acme/lib",
        "https://github.com/acme/lib?x", "https://github.com/acme/lib#x", "https://github.com/acme", "https://github.com/acme/lib/tree",
        "https://github.com/acme/li%62", "file:///acme/lib", "/acme/lib", "ext::sh -c touch", "ext::github.com:acme/lib", "fd::17",
        "--upload-pack=x", "git@evil:acme/lib", "https://github.com/../etc", "", "acme/lib"]
    ) {
      assert.isNull(repositoryAt(address, "github.com"), address)
    }
  })
})
