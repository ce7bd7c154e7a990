// SPDX-License-Identifier: MIT

#include "export/protobuf.h"
#include "base/text/text.h"

void protobuf_text(struct bytes *out, unsigned field, const char *text)
{
    if (!text || !*text)
        return;
    text = text_safe(text);
    protobuf_bytes(out, field, text, strlen(text));
}
