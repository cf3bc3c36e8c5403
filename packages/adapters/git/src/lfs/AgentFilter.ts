/**
 * Git LFS in the agent's own git, without the program `git-lfs`: a filter that makes pointers of contents, and contents of pointers. It
 * is a file of the agent's `.git`. Contents that it makes pointers of are kept there, where `git-lfs` keeps them too.
 */
import { join } from "node:path"

/** Contents in the agent's `.git`, by their SHA-256. */
export const keptAs = (oid: string): string => `lfs/objects/${oid.slice(0, 2)}/${oid.slice(2, 4)}/${oid}`

const FILE = "lfs/filter"

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

const scriptOf = (store: string): string =>
  `# The filter of Git LFS in this repository.
version='version https://git-lfs.github.com/spec/v1'
store=${quoted(store)}
own=$(git rev-parse --git-common-dir)/lfs
mkdir -p "$own/tmp"
file=$own/tmp/$$
trap 'rm -f "$file"' EXIT
cat > "$file"
size=$(($(wc -c < "$file")))
pointer=
if [ "$size" -eq 0 ] || { [ "$size" -lt 1024 ] && [ "$(head -n 1 "$file" | tr -d '\\0')" = "$version" ]; }; then pointer=1; fi
places() {
  a=$(printf %.2s "$oid")
  b=\${oid#"$a"}
  b=$(printf %.2s "$b")
  shared=$store/$a/$oid
  kept=$own/objects/$a/$b/$oid
}
if [ "$1" = clean ] && [ -z "$pointer" ]; then
  oid=$(sha256sum < "$file")
  oid=\${oid%% *}
  places
  if [ ! -f "$shared" ] && [ ! -f "$kept" ]; then
    mkdir -p "\${kept%/*}"
    mv -f "$file" "$kept"
  fi
  printf '%s\\noid sha256:%s\\nsize %s\\n' "$version" "$oid" "$size"
  exit
fi
if [ "$1" = smudge ] && [ -n "$pointer" ]; then
  oid=$(sed -n 's/^oid sha256:\\([0-9a-f]\\{64\\}\\)$/\\1/p' "$file")
  if [ -n "$oid" ]; then
    places
    for found in "$shared" "$kept"; do
      if [ -f "$found" ]; then
        cat "$found"
        exit
      fi
    done
  fi
fi
cat "$file"
`

/** Runs in the top folder of a tree, also of a worktree that the agent adds. */
const command = (what: string): string => `sh \\"$(git rev-parse --git-common-dir)/${FILE}\\" ${what}`

/** Settings of the agent's repository. */
export const CONFIG = `[filter "lfs"]\n\tclean = "${command("clean")}"\n\tsmudge = "${command("smudge")}"\n`

/** The file with the filter. `store`: where the box shows the mirror's contents. */
export const fileOf = (gitDir: string, store: string): { readonly path: string; readonly content: string } => ({
  path: join(gitDir, FILE),
  content: scriptOf(store)
})
