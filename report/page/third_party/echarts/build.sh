#!/usr/bin/env bash
# Builds echarts.min.js again from entry.js: needs npm, and its registry for the packages below.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --ignore-scripts --no-audit --no-fund echarts@6.1.0 zrender@6.1.0 esbuild@0.28.2
while read -r name want; do
  got=$(node -p "require('./package-lock.json').packages['node_modules/$name'].integrity")
  [ "$got" = "$want" ] || { echo "$name has checksum $got, want $want" >&2; exit 1; }
done <<'EOF'
echarts sha512-q0yaFPggC9FUdsWH4blavRWFmxdrIodbkoKNAjJudAI6CA9gNPxHtV2RcZNEepZVlk4yvBYkOkbk6HIVpIyHZA==
zrender sha512-oEGMDB6pOP2S6OwRR4PdVv610zrjnA3Bh+JnSG12fYJlBKjtNAoEb5fSUoCOOINlH96I2fU38/A2UpRKs67xYQ==
esbuild sha512-HKVLS8dvII+xoKW9kmqxbRKrnWEXfJJr/FZhhJmiqIB0e053QNYFqOBouTMO/k5sID4MvCiUCvv8b9M4h32wIA==
EOF
cp "$here/entry.js" .
notice() { printf '/*!\n'; sed 's/^/ * /; s/ *$//' "$@"; printf ' */\n'; }
banner=$(printf '%s\n' 'Apache ECharts 6.1.0, reduced to the parts that neuroshard uses.' \
  'Licensed under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0' '' |
  cat - node_modules/echarts/NOTICE <(printf '\n\nIt contains zrender 6.1.0:\n\n') node_modules/zrender/LICENSE \
    <(printf '\nand parts of d3:\n\n') node_modules/echarts/licenses/LICENSE-d3 | notice)
./node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=echarts \
  --target=es2020 --charset=utf8 --legal-comments=none --define:process.env.NODE_ENV='"production"' \
  --banner:js="$banner" --outfile="$here/echarts.min.js"
cp node_modules/echarts/LICENSE node_modules/echarts/NOTICE "$here"
cp node_modules/echarts/licenses/LICENSE-d3 "$here/LICENSE-d3"
cp node_modules/zrender/LICENSE "$here/LICENSE-zrender"
sha256sum "$here/echarts.min.js"
