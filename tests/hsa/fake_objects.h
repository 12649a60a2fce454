/* Code objects as the double of the HSA runtime loads them: which processor a file is for, its
   segments in memory, its symbols. Nothing is trusted: a loader that crashed on a damaged file
   would hide that the runtime hands it one. */

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Code {
  uint8_t *elf, *base;
  uint64_t size, span;
} Code;

/* Numbers in e_flags: LLVM's "User Guide for AMDGPU Backend", "ELF header e_flags". */
static const struct { const char *name; uint32_t machine; } machines[] = {
  {"gfx906", 0x2f}, {"gfx908", 0x30}, {"gfx1030", 0x36}, {"gfx90a", 0x3f}, {"gfx1100", 0x41},
  {"gfx1150", 0x43}, {"gfx1103", 0x44}, {"gfx1101", 0x46}, {"gfx1102", 0x47}, {"gfx1200", 0x48},
  {"gfx1151", 0x4a}, {"gfx942", 0x4c}, {"gfx1201", 0x4e}, {"gfx950", 0x4f},
  {"gfx9-generic", 0x51}, {"gfx10-3-generic", 0x53}, {"gfx11-generic", 0x54},
  {"gfx12-generic", 0x59}, {"gfx9-4-generic", 0x5f},
};

static const Elf64_Ehdr *header(const uint8_t *elf, uint64_t size) {
  const Elf64_Ehdr *h = (const void *)elf;
  if (size < sizeof *h || memcmp(elf, ELFMAG, 4) || h->e_machine != 224 || h->e_type != ET_DYN ||
      h->e_ident[EI_OSABI] != 64) return NULL;
  if (h->e_phoff > size || h->e_phnum > (size - h->e_phoff) / sizeof(Elf64_Phdr)) return NULL;
  if (h->e_shoff > size || h->e_shnum > (size - h->e_shoff) / sizeof(Elf64_Shdr)) return NULL;
  return h;
}

static int setting_fits(const char *isa, const char *name, uint32_t state) {
  const char *at = strstr(isa, name);
  if (state < 2) return 1; /* any */
  return at && at[strlen(name)] == (state == 3 ? '+' : '-');
}

/* Whether an agent with this ISA, `gfx942:sramecc+:xnack-`, runs the code. */
static int runs(const char *isa, uint32_t flags) {
  char name[64];
  snprintf(name, sizeof name, "%s", isa);
  name[strcspn(name, ":")] = 0;
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
    if (!strcmp(machines[i].name, name))
      return machines[i].machine == (flags & 0xff) &&
             setting_fits(isa, "xnack", flags >> 8 & 3) &&
             setting_fits(isa, "sramecc", flags >> 10 & 3);
  return 0;
}

/* The segments of a file in memory; 0 where it is damaged. */
static int place(const uint8_t *elf, uint64_t size, Code *out) {
  const Elf64_Ehdr *h = header(elf, size);
  if (!h) return 0;
  const Elf64_Phdr *p = (const void *)(elf + h->e_phoff);
  uint64_t span = 0;
  for (int i = 0; i < h->e_phnum; i++) {
    if (p[i].p_type != PT_LOAD) continue;
    if (p[i].p_offset > size || p[i].p_filesz > size - p[i].p_offset ||
        p[i].p_filesz > p[i].p_memsz || p[i].p_vaddr + p[i].p_memsz > 1 << 28) return 0;
    if (p[i].p_vaddr + p[i].p_memsz > span) span = p[i].p_vaddr + p[i].p_memsz;
  }
  if (!span) return 0;
  out->elf = memcpy(malloc(size), elf, size), out->size = size, out->span = span;
  out->base = memset(aligned_alloc(4096, (span + 4095) & ~4095ul), 0, span);
  for (int i = 0; i < h->e_phnum; i++)
    if (p[i].p_type == PT_LOAD)
      memcpy(out->base + p[i].p_vaddr, elf + p[i].p_offset, p[i].p_filesz);
  return 1;
}

/* The value of a symbol, by name; or, without one, the name of the kernel whose descriptor lies at
   *value. NULL where there is none. */
static const char *symbol(const Code *code, const char *name, uint64_t *value) {
  const Elf64_Ehdr *h = (const void *)code->elf;
  const Elf64_Shdr *s = (const void *)(code->elf + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    if (s[i].sh_type != SHT_SYMTAB || s[i].sh_link >= h->e_shnum) continue;
    const Elf64_Shdr *t = s + s[i].sh_link;
    if (s[i].sh_offset > code->size || s[i].sh_size > code->size - s[i].sh_offset ||
        t->sh_offset > code->size || t->sh_size > code->size - t->sh_offset) continue;
    const Elf64_Sym *y = (const void *)(code->elf + s[i].sh_offset);
    const char *names = (const char *)code->elf + t->sh_offset;
    for (uint64_t k = 0; k < s[i].sh_size / sizeof *y; k++) {
      if (y[k].st_name >= t->sh_size || y[k].st_value + 64 > code->span) continue;
      const char *found = names + y[k].st_name, *dot = strrchr(found, '.');
      if (name ? !strcmp(found, name) : y[k].st_value == *value && dot && !strcmp(dot, ".kd")) {
        *value = y[k].st_value;
        return found;
      }
    }
  }
  return NULL;
}
