#include "data/image_decoder.h"

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio> // jpeglib.h needs it
#include <cstring>

#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"

namespace zero::data {

namespace {

// What a row of pixels consists of.
enum class RowKind { grey, colour, cmyk, inverted_cmyk };

int64_t bytes_per_pixel(RowKind kind) {
  switch (kind) {
    case RowKind::grey:
      return 1;
    case RowKind::colour:
      return 3;
    default:
      return 4;
  }
}

[[noreturn]] void refuse_image(
    const std::string& title,
    const std::string& what) {
  throw CorruptionError(c10::str(
      title,
      " cannot be used: ",
      what,
      ". Fix: copy or download it again, or remove it"));
}

at::Tensor empty_image(
    const std::string& title,
    int64_t num_channels,
    int64_t height,
    int64_t width) {
  if (height > kMaxImageSide || width > kMaxImageSide ||
      height * width > kMaxImagePixels) {
    refuse_image(
        title,
        c10::str(
            "it would have ",
            width,
            " x ",
            height,
            " pixels, expected at most ",
            kMaxImageSide,
            " a side and ",
            kMaxImagePixels,
            " in all"));
  }
  return at::empty({num_channels, height, width}, at::kByte);
}

uint8_t product_of_shares(int a, int b) {
  return static_cast<uint8_t>((a * b + 127) / 255);
}

std::array<uint8_t, 3> colour_of(const uint8_t* pixel, RowKind kind) {
  if (kind == RowKind::grey) {
    return {pixel[0], pixel[0], pixel[0]};
  }
  if (kind == RowKind::colour) {
    return {pixel[0], pixel[1], pixel[2]};
  }
  // Ink takes away light, and black ink of all colours. Most programs store how
  // much light is left, the inverse.
  std::array<uint8_t, 3> colour{};
  const int flip = kind == RowKind::cmyk ? 255 : 0;
  for (size_t i = 0; i < 3; ++i) {
    colour[i] = product_of_shares(pixel[i] ^ flip, pixel[3] ^ flip);
  }
  return colour;
}

uint8_t grey_of(const std::array<uint8_t, 3>& colour) {
  // BT.601, in units of 1/65536, which have to add up to 1.
  constexpr uint32_t kRed = 19'595;
  constexpr uint32_t kGreen = 38'470;
  constexpr uint32_t kBlue = 7'471;
  const uint32_t sum =
      kRed * colour[0] + kGreen * colour[1] + kBlue * colour[2];
  return static_cast<uint8_t>((sum + 32'768) >> 16);
}

// Where the rows of an image go: pixel by pixel in a file, and channel by
// channel in the tensor.
struct RowTarget {
  uint8_t* data;
  int64_t num_channels;
  int64_t height;
  int64_t width;
  RowKind kind;

  void write(int64_t y, const uint8_t* row) const {
    uint8_t* to = data + y * width;
    const int64_t step = bytes_per_pixel(kind);
    for (int64_t x = 0; x < width; ++x, ++to, row += step) {
      const auto colour = colour_of(row, kind);
      if (num_channels == 1) {
        *to = kind == RowKind::grey ? row[0] : grey_of(colour);
        continue;
      }
      for (int64_t channel = 0; channel < 3; ++channel) {
        to[channel * height * width] = colour[static_cast<size_t>(channel)];
      }
    }
  }
};

// Both libraries end a function in the middle when something is wrong: they
// jump here, which returns false. The frames that are jumped over are never
// unwound, so `call` must have nothing to destroy.
template <class Call>
bool completes(std::jmp_buf& place, Call call) {
  if (setjmp(place) != 0) {
    return false;
  }
  call();
  return true;
}

// One read of a JPEG file.
class JpegReader {
 public:
  JpegReader(std::string_view bytes, const std::string& title)
      : bytes_(bytes), title_(title) {
    info_.err = ::jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { owner(info).stop(); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && !is_harmless(info->err->msg_code)) {
        owner(info).stop();
      }
    };
    errors_.output_message = [](j_common_ptr) {}; // it would print
    progress_.progress_monitor = [](j_common_ptr info) {
      if (owner(info).info_.input_scan_number > kMaxScans) {
        owner(info).too_many_scans_ = true;
        owner(info).stop();
      }
    };
  }
  ~JpegReader() {
    ::jpeg_destroy_decompress(&info_);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  at::Tensor read(int64_t num_channels) {
    check(completes(place_, [this] { read_header(); }));
    const int64_t height = info_.image_height;
    const int64_t width = info_.image_width;
    at::Tensor image = empty_image(title_, num_channels, height, width);
    const RowTarget target{
        image.mutable_data_ptr<uint8_t>(),
        num_channels,
        height,
        width,
        choose_kind(num_channels)};
    const at::Tensor row =
        at::empty({width * bytes_per_pixel(target.kind)}, at::kByte);
    auto* row_data = row.mutable_data_ptr<uint8_t>();
    check(completes(place_, [&] { read_rows(target, row_data); }));
    return image;
  }

 private:
  // A progressive file improves the whole image with each of its scans. Real
  // ones have about ten; thousands would keep us busy for hours.
  static constexpr int kMaxScans = 200;

  static JpegReader& owner(j_common_ptr info) {
    return *static_cast<JpegReader*>(info->client_data);
  }

  // What cameras and old programs do wrong without harm to the image. All other
  // warnings are about pixels that are made up.
  static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
        code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_ICC;
  }

  [[noreturn]] void stop() {
    std::longjmp(place_, 1);
  }

  void check(bool completed) {
    if (completed) {
      return;
    }
    if (too_many_scans_) {
      refuse_image(title_, c10::str("it has more than ", kMaxScans, " scans"));
    }
    char message[JMSG_LENGTH_MAX];
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message);
    refuse_image(title_, c10::str("as a JPEG file it is damaged: ", message));
  }

  void read_header() {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    ::jpeg_mem_src(
        &info_,
        reinterpret_cast<const unsigned char*>(bytes_.data()),
        bytes_.size());
    ::jpeg_read_header(&info_, TRUE);
  }

  RowKind choose_kind(int64_t num_channels) {
    const auto from = info_.jpeg_color_space;
    if (from == JCS_CMYK || from == JCS_YCCK) {
      info_.out_color_space = JCS_CMYK;
      return info_.saw_Adobe_marker != 0 ? RowKind::inverted_cmyk
                                         : RowKind::cmyk;
    }
    // Brightness is stored by itself: colours need not be looked at for it.
    const bool grey =
        from == JCS_GRAYSCALE || (from == JCS_YCbCr && num_channels == 1);
    info_.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    return grey ? RowKind::grey : RowKind::colour;
  }

  void read_rows(const RowTarget& target, uint8_t* row) {
    ::jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      const int64_t y = info_.output_scanline;
      ::jpeg_read_scanlines(&info_, &row, 1);
      target.write(y, row);
    }
    ::jpeg_finish_decompress(&info_);
  }

  std::string_view bytes_;
  const std::string& title_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf place_{};
  bool too_many_scans_ = false;
};

// One read of a PNG file.
class PngReader {
 public:
  PngReader(std::string_view bytes, const std::string& title)
      : bytes_(bytes),
        title_(title),
        png_(::png_create_read_struct(
            PNG_LIBPNG_VER_STRING,
            this,
            [](png_structp png, png_const_charp message) {
              static_cast<PngReader*>(::png_get_error_ptr(png))->stop(message);
            },
            [](png_structp, png_const_charp) {})), // it would print
        info_(png_ == nullptr ? nullptr : ::png_create_info_struct(png_)) {
    if (info_ == nullptr) {
      ::png_destroy_read_struct(&png_, &info_, nullptr);
      throw IoError(
          c10::str("no memory to decode ", title, ". Fix: free memory for it"));
    }
  }
  ~PngReader() {
    ::png_destroy_read_struct(&png_, &info_, nullptr);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  at::Tensor read(int64_t num_channels) {
    check(completes(place_, [this] { read_header(); }));
    const int64_t height = ::png_get_image_height(png_, info_);
    const int64_t width = ::png_get_image_width(png_, info_);
    at::Tensor image = empty_image(title_, num_channels, height, width);
    check(completes(place_, [this] { choose_format(); }));
    const RowTarget target{
        image.mutable_data_ptr<uint8_t>(),
        num_channels,
        height,
        width,
        ::png_get_channels(png_, info_) == 1 ? RowKind::grey : RowKind::colour};
    const auto row_bytes =
        static_cast<int64_t>(::png_get_rowbytes(png_, info_));
    ZERO_CHECK_EQ(row_bytes, width * bytes_per_pixel(target.kind));
    // An interlaced file comes in several passes over the whole image.
    const at::Tensor rows =
        at::empty({num_passes_ > 1 ? height : 1, row_bytes}, at::kByte);
    auto* row_data = rows.mutable_data_ptr<uint8_t>();
    check(completes(place_, [&] { read_rows(target, row_data); }));
    return image;
  }

 private:
  [[noreturn]] void stop(const char* message) {
    std::snprintf(message_, sizeof(message_), "%s", message);
    std::longjmp(place_, 1);
  }

  void check(bool completed) const {
    if (!completed) {
      refuse_image(title_, c10::str("as a PNG file it is damaged: ", message_));
    }
  }

  static void give_bytes(png_structp png, png_bytep to, size_t count) {
    auto& reader = *static_cast<PngReader*>(::png_get_io_ptr(png));
    if (count > reader.bytes_.size()) {
      reader.stop("it is cut short");
    }
    std::memcpy(to, reader.bytes_.data(), count);
    reader.bytes_.remove_prefix(count);
  }

  void read_header() {
    ::png_set_read_fn(png_, this, give_bytes);
    // The limits are ours, and so is the message about them.
    ::png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Texts, profiles and the like: they are not needed, and can be compressed
    // to be much longer than they look.
    ::png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    ::png_read_info(png_, info_);
  }

  // Whatever the file has, rows come as grey or as red, green and blue.
  void choose_format() {
    ::png_set_expand(png_);
    ::png_set_scale_16(png_);
    ::png_set_strip_alpha(png_);
    num_passes_ = ::png_set_interlace_handling(png_);
    ::png_read_update_info(png_, info_);
  }

  void read_rows(const RowTarget& target, uint8_t* rows) {
    const int64_t row_bytes = target.width * bytes_per_pixel(target.kind);
    for (int pass = 0; pass < num_passes_; ++pass) {
      for (int64_t y = 0; y < target.height; ++y) {
        uint8_t* row = num_passes_ > 1 ? rows + y * row_bytes : rows;
        ::png_read_row(png_, row, nullptr);
        if (pass == num_passes_ - 1) {
          target.write(y, row);
        }
      }
    }
    ::png_read_end(png_, nullptr);
  }

  std::string_view bytes_;
  const std::string& title_;
  png_structp png_;
  png_infop info_;
  std::jmp_buf place_{};
  char message_[128] = "";
  int num_passes_ = 1;
};

} // namespace

at::Tensor decode_image(
    std::string_view bytes,
    const std::string& title,
    int64_t num_channels) {
  if (num_channels != 1 && num_channels != 3) {
    throw ConfigError(c10::str(
        "images cannot have ",
        num_channels,
        " channels. Fix: ask for 3, or 1 for grey"));
  }
  if (bytes.starts_with("\xff\xd8\xff")) {
    return JpegReader(bytes, title).read(num_channels);
  }
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    return PngReader(bytes, title).read(num_channels);
  }
  refuse_image(
      title,
      bytes.empty() ? "it is empty" : "it is neither a JPEG nor a PNG file");
}

at::Tensor resize_image(
    const at::Tensor& image,
    int64_t height,
    int64_t width) {
  if (std::min(height, width) < 1 || std::max(height, width) > kMaxImageSide) {
    throw ConfigError(c10::str(
        "an image cannot be resized to ",
        width,
        " x ",
        height,
        " pixels. Fix: ask for 1 to ",
        kMaxImageSide,
        " a side"));
  }
  return at::_upsample_bilinear2d_aa(
             image.contiguous().unsqueeze(0),
             at::IntArrayRef({height, width}),
             /*align_corners=*/false)
      .squeeze(0);
}

at::Tensor fit_image(const at::Tensor& image, int64_t size) {
  // The other way round, a line of 1 x 65500 pixels would first become one of
  // size x 65500 * size.
  const int64_t height = image.size(1);
  const int64_t width = image.size(2);
  const int64_t side = std::min(height, width);
  const at::Tensor middle = image.narrow(1, (height - side) / 2, side)
                                .narrow(2, (width - side) / 2, side);
  return resize_image(middle, size, size);
}

} // namespace zero::data
